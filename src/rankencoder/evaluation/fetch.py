"""Public data for training and evaluation, fetched from the hub once and checked against its checksums."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankencoder.encoders import first_line
from rankencoder.errors import InputError, nearest
from rankencoder.evaluation.hub_files import (
    download,
    download_bars,
    file_url,
    list_data_files,
    tree_url,
)
from rankencoder.evaluation.sts_hub import HUB_SETS
from rankencoder.evaluation.unpack import unpack_senteval
from rankencoder.io.storage import file_digest, new_file, new_folder, read_json, user_cache, write_json

CHECKSUMS = "checksums.json"
"""The file of a data folder that holds the SHA-256 of every file that was put there."""

_SIMCSE = "princeton-nlp/datasets-for-simcse"
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)


@dataclass(frozen=True)
class Part:
    """Files of one repository that are installed together.

    :param folder: Where they go, below the data folder.
    :param file: The only file that is wanted; by default all data files.
    """

    folder: str
    repository: str
    revision: str = "main"
    file: str | None = None

    @property
    def is_archive(self) -> bool:
        """Say whether the file is to be unpacked."""
        return self.file is not None and self.file.endswith(".tar")

    def by_hand(self, folder: Path) -> str:
        """Say what to download and where to put it."""
        target = folder / self.folder
        if self.file is None:
            return f"the files of {tree_url(self.repository, self.revision)} into {target}"
        place = f"and unpack it into {target / 'downstream'}" if self.is_archive else f"into {target}"
        return f"{file_url(self.repository, self.revision, self.file)} {place}"


_MTEB = {hub_set.repository: hub_set.revision for hub_set in HUB_SETS.values()}
PARTS = {
    "senteval": (Part("senteval", _SIMCSE, file="senteval.tar"),),
    "wiki1m": (Part("wiki1m", _SIMCSE, file="wiki1m_for_simcse.txt"),),
    "mteb": tuple(Part(repository, repository, revision) for repository, revision in _MTEB.items()),
}
"""What can be fetched: SentEval's data, a million sentences of Wikipedia, MTEB's copies of the STS sets."""


def data_folder() -> Path:
    """Return where fetched data lives: RANKENCODER_DATA, or the user's cache."""
    if chosen := os.environ.get("RANKENCODER_DATA"):
        return Path(chosen).expanduser()
    return user_cache() / "data"


def fetch(
    what: Sequence[str],
    folder: str | Path | None = None,
    *,
    progress: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Fetch data from the hub, and return the folder that it is in.

    What is there already and whole is not fetched again, and then no network is needed. A part is installed
    whole or not at all, so that an interrupted call can be repeated.

    :param what: Out of :data:`PARTS`.
    :param folder: Where to; by default :func:`data_folder`.
    :param progress: Show bars.
    :param tell: Is called with a line for each part, and for each damaged file that is fetched again.
    :raises InputError: If there is no such data, no network, or a download is not what the hub says it is.
    """
    tell = tell or (lambda _: None)
    for name in what:
        if name not in PARTS:
            raise InputError(f"no data {name!r}:{nearest(name, PARTS)}")
    parts = [part for name in dict.fromkeys(what) for part in PARTS[name]]
    folder = Path(folder).expanduser().resolve() if folder else data_folder().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder), download_bars(progress):
        needed = [part for part in parts if not _is_whole(folder, part, tell)]
        for i, part in enumerate(needed):
            tell(f"fetching {part.file or part.repository}")
            _install(folder, part, needed[i:])
    return folder


def verify(folder: str | Path) -> list[str]:
    """Return the files of a data folder that are missing or not as they were installed.

    :raises InputError: If nothing was fetched into the folder, or its list of checksums is damaged.
    """
    folder = Path(folder)
    if not (folder / CHECKSUMS).exists():
        raise InputError(f"no {CHECKSUMS} in {folder}: `rankencoder data fetch` put nothing there")
    return [name for entry in _entries(folder).values() for name in _bad_files(folder, entry)]


def _entries(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what is listed as installed, by the parts' folders."""
    path = folder / CHECKSUMS
    if not path.exists():
        return {}
    try:
        parts = read_json(path)["parts"]
        for entry in parts.values():
            dict.items(entry["files"])
    except (InputError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged: delete {folder}, and fetch the data again") from error
    return dict(parts)


def _bad_files(folder: Path, entry: dict[str, Any]) -> list[str]:
    return [
        name
        for name, digest in entry["files"].items()
        if not os.path.isfile(folder / name)
        or file_digest(folder / name) != digest  # (of any length of name)
    ]


def _is_whole(folder: Path, part: Part, tell: Callable[[str], None]) -> bool:
    entry = _entries(folder).get(part.folder)
    if entry is None:
        return False
    bad = _bad_files(folder, entry)
    for name in bad:
        state = "damaged" if (folder / name).exists() else "missing"
        tell(f"{folder / name} is {state}: it is fetched again")
    return not bad


def _install(folder: Path, part: Part, missing: Sequence[Part]) -> None:
    target, downloads = folder / part.folder, folder / f".downloads-{part.folder.replace('/', '-')}"
    _check_ours(folder, part)
    commit, files = _download(folder, part, downloads, missing)
    if part.is_archive:
        files = [_unpack(downloads, files[0])]
    shutil.rmtree(target, ignore_errors=True)
    with new_folder(target) as temporary:
        for file in files:
            (temporary / file).parent.mkdir(parents=True, exist_ok=True)
            (downloads / file).rename(temporary / file)
        paths = sorted(path for path in temporary.rglob("*") if path.is_file())
        digests = {
            f"{part.folder}/{path.relative_to(temporary).as_posix()}": file_digest(path) for path in paths
        }
        # listed before it is there: an interruption in between is mended by the next call
        _list(folder, part, {"repository": part.repository, "revision": commit, "files": digests})
    shutil.rmtree(downloads)


def _unpack(downloads: Path, archive: str) -> str:
    try:
        unpack_senteval(downloads / archive, downloads / "downstream")
    except InputError:
        shutil.rmtree(downloads)  # the next call downloads it anew
        raise
    return "downstream"


def _check_ours(folder: Path, part: Part) -> None:
    """Refuse to replace what somebody else put there."""
    target = folder / part.folder
    listed = _entries(folder).get(part.folder, {"files": {}})["files"]
    for path in target.rglob("*"):
        if not path.is_dir() and path.relative_to(folder).as_posix() not in listed:
            raise InputError(
                f"{path} was not put there by `rankencoder data fetch`, which would replace {target}: use "
                "what is there with --data, move it away, or choose another folder with -o"
            )


def _list(folder: Path, part: Part, entry: dict[str, Any]) -> None:
    entries = {**_entries(folder), part.folder: entry}
    with new_file(folder / CHECKSUMS) as temporary:
        write_json(temporary, {"format": 1, "parts": entries})


def _download(folder: Path, part: Part, downloads: Path, missing: Sequence[Part]) -> tuple[str, list[str]]:
    """Download a part's files and check them; return the commit that they are of, and their names."""
    with _told(folder, missing):
        files = [part.file] if part.file else list_data_files(part.repository, part.revision)
        commits = [download(part.repository, part.revision, file, downloads) for file in files]
    if not files:
        raise InputError(f"{part.repository} at {part.revision} holds no data files")
    return commits[0], files


@contextmanager
def _told(folder: Path, missing: Sequence[Part]) -> Iterator[None]:
    """Turn whatever a library raises without a network into advice."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
            raise
        advice = ", and ".join(part.by_hand(folder) for part in missing)
        raise InputError(
            f"cannot fetch from the hub ({first_line(error)}). Where there is a network, download {advice}; "
            "or use a copy that you have with --data DIR"
        ) from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time fetch into a folder."""
    from filelock import FileLock

    with FileLock(folder / ".lock"):
        yield
