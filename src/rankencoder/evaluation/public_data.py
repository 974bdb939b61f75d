"""Public data for training and evaluation, fetched from the hub once and checked against its checksums."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError, first_line, nearest
from rankencoder.evaluation.sts_sources import HUB_SETS, hub_output
from rankencoder.io.cache import cache_root
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.storage import new_folder

_log = logging.getLogger(__name__)
_SIMCSE = "princeton-nlp/datasets-for-simcse"
_DATA_FILES = ("*.jsonl", "*.jsonl.gz", "*.json", "*.json.gz", "*.csv", "*.csv.gz", "*.parquet", "README.md")
_MOST_FILES, _MOST_BYTES = 10_000, 4 * 2**30  # SentEval's archive is far smaller
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)


@dataclass(frozen=True)
class Part:
    """Files of one repository, or only one of them, that are installed together in a folder."""

    folder: str
    repository: str
    revision: str = "main"
    file: str | None = None

    @property
    def is_archive(self) -> bool:
        """Whether the file is to be unpacked."""
        return str(self.file).endswith(".tar")

    def instructions(self, folder: Path) -> str:
        """Say what to download by hand and where to put it."""
        from huggingface_hub import constants, hf_hub_url

        target = folder / self.folder
        if self.file is None:
            address = f"{constants.ENDPOINT}/datasets/{self.repository}/tree/{self.revision}"
            return f"the files of {address} into {target}"
        url = hf_hub_url(self.repository, self.file, repo_type="dataset", revision=self.revision)
        return (
            f"{url} and unpack it into {target / 'downstream'}" if self.is_archive else f"{url} into {target}"
        )


_MTEB = {hub_set.repository: hub_set.revision for hub_set in HUB_SETS.values()}
# what can be fetched: SentEval's data, a million sentences of Wikipedia, MTEB's copies of the STS sets
PARTS = {
    "senteval": (Part("senteval", _SIMCSE, file="senteval.tar"),),
    "wiki1m": (Part("wiki1m", _SIMCSE, file="wiki1m_for_simcse.txt"),),
    "mteb": tuple(Part(repository, repository, revision) for repository, revision in _MTEB.items()),
}


def data_folder() -> Path:
    """Return where fetched data lives: ``$RANKENCODER_DATA``, or a folder of the cache."""
    if chosen := os.environ.get("RANKENCODER_DATA"):
        return Path(chosen).expanduser()
    return cache_root("data")


def fetch_data(
    what: Sequence[str],
    folder: str | Path | None = None,
    *,
    progress: bool = False,
    report: Callable[[str], None] = _log.info,
) -> Path:
    """Fetch data from the hub, and return the folder that it is in.

    What is there already and whole is not fetched again, and then no network is needed. A part is installed
    whole or not at all, so that an interrupted call can be repeated.

    :param report: Called with a line for each part that is fetched, and for each that is damaged.
    """
    from filelock import FileLock

    for name in what:
        if name not in PARTS:
            raise InputError(f"no data {name!r}:{nearest(name, PARTS)}")
    parts = [part for name in dict.fromkeys(what) for part in PARTS[name]]
    folder = Path(folder).expanduser().resolve() if folder else data_folder().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"), hub_output(progress):
        needed = [part for part in parts if not _is_whole(folder / part.folder, report)]
        for i, part in enumerate(needed):
            report(f"fetching {part.file or part.repository}")
            with _network_advice(folder, needed[i:]):
                downloads = _download(folder, part)
            _install(downloads, folder / part.folder, part)
    return folder


def _is_whole(target: Path, report: Callable[[str], None]) -> bool:
    try:
        is_whole = check_manifest(target, advice="fetching it again")
    except InputError as error:
        report(str(error))
        return False
    if not is_whole and target.is_dir() and any(target.iterdir()):
        raise InputError(
            f"{target} holds files that were not fetched, or by an earlier version: evaluate with that "
            "folder, move them away, or choose another `output`"
        )
    return is_whole


def _download(folder: Path, part: Part) -> Path:
    """Download a part's files into a folder of their own, and check them against the hub's checksums."""
    from huggingface_hub import HfApi, hf_hub_download, snapshot_download

    # unlike other calls, this one does not try for half a minute where there is no network
    commit = HfApi().dataset_info(part.repository, revision=part.revision, timeout=10).sha
    downloads = folder / f".downloads-{part.folder.replace('/', '-')}"
    place: dict[str, Any] = {"repo_type": "dataset", "revision": commit, "local_dir": downloads}
    if part.file is not None:
        hf_hub_download(part.repository, part.file, **place)
    else:
        snapshot_download(part.repository, allow_patterns=list(_DATA_FILES), **place)
    found = HfApi().verify_repo_checksums(part.repository, **place)
    if found.mismatches:
        shutil.rmtree(downloads)
        bad = found.mismatches[0]
        raise InputError(
            f"{bad['path']} of {part.repository} arrived damaged: its checksum is {bad['actual']}, the hub's "
            f"{bad['expected']}; nothing was installed, try again"
        )
    if not found.checked_count:
        raise InputError(f"{part.repository} at {part.revision} has no data files")
    return downloads


def _install(downloads: Path, target: Path, part: Part) -> None:
    shutil.rmtree(target, ignore_errors=True)
    with new_folder(target) as new:
        if part.is_archive:
            try:
                unpack_senteval(downloads / str(part.file), new / "downstream")
            except InputError:
                shutil.rmtree(downloads)  # the next call downloads it anew
                raise
        else:
            shutil.rmtree(downloads / ".cache")  # the hub's own notes
            for path in downloads.iterdir():
                path.rename(new / path.name)
        write_manifest(new)
    shutil.rmtree(downloads)


def unpack_senteval(archive: Path, target: Path) -> None:
    """Unpack the folder of an archive that holds ``STS``, be it at its top or further down."""
    unpacked = target.with_name("unpacked")
    try:
        shutil.unpack_archive(archive, unpacked, "tar", filter=_archive_filter())
    except (tarfile.TarError, EOFError, ValueError, OSError) as error:
        if getattr(error, "errno", None) in _DISK_ERRORS:
            raise
        raise InputError(f"{archive.name} is not unpacked: {first_line(error)}") from error
    found = [path.parent for path in unpacked.rglob("STS") if path.is_dir()]
    if not found:
        raise InputError(f"{archive.name} is not SentEval's data: it holds no folder STS")
    min(found, key=lambda path: len(path.parts)).rename(target)
    shutil.rmtree(unpacked, ignore_errors=True)


def _archive_filter() -> Callable[[tarfile.TarInfo, str], tarfile.TarInfo]:
    """Return a filter for one archive that refuses links, devices, and more than SentEval's data could be."""
    files = size = 0

    def check(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
        nonlocal files, size
        files, size = files + 1, size + member.size
        if files > _MOST_FILES or size > _MOST_BYTES:
            raise ValueError("it is far larger than SentEval's data")
        if not (member.isfile() or member.isdir()):
            raise ValueError(f"{member.name} in it is no plain file")
        return tarfile.data_filter(member, path)

    return check


@contextmanager
def _network_advice(folder: Path, missing: Sequence[Part]) -> Iterator[None]:
    """Turn whatever a library raises without a network into advice."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            raise
        advice = ", and ".join(part.instructions(folder) for part in missing)
        raise InputError(
            f"cannot fetch from the hub ({first_line(error)}). Where there is a network, download {advice}; "
            "or evaluate with a copy that you have"
        ) from error
