"""Public data for training and evaluation, fetched from the hub once."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from rankencoder.encoder_sources import quiet_hub
from rankencoder.errors import InputError, first_line, nearest
from rankencoder.io.storage import data_folder, file_digest, new_folder

_REPOSITORY = "princeton-nlp/datasets-for-simcse"
_FILES = {"senteval": "senteval.tar", "wiki1m": "wiki1m_for_simcse.txt"}


def fetch_data(what: Sequence[str], folder: str | Path | None = None) -> Path:
    """Fetch "senteval" or "wiki1m" from the hub, and return the folder that contains them.

    Data that is already there is not fetched again, and needs no network. Each is installed atomically, so
    that an interrupted call can be repeated.
    """
    for name in what:
        if name not in _FILES:
            raise InputError(f"no data {name!r}:{nearest(name, _FILES)}")
    folder = Path(folder or data_folder()).expanduser().resolve()
    for name in what:
        target = folder / name
        if target.exists():
            continue
        file = _download(_FILES[name], target)
        with new_folder(target) as new:
            if file.suffix == ".tar":
                unpack_senteval(file, new / "downstream")
            else:
                shutil.copyfile(file, new / file.name)
    return folder


def _download(name: str, target: Path) -> Path:
    """Download a file into the hub's own cache and check it, or say how to get it by hand."""
    from huggingface_hub import HfApi, hf_hub_download, hf_hub_url

    try:
        # a download would retry for half a minute where there is no network
        commit = HfApi().dataset_info(_REPOSITORY, revision="main", timeout=10).sha
        with quiet_hub():
            file = Path(hf_hub_download(_REPOSITORY, name, repo_type="dataset", revision=commit))
            listed = HfApi().list_repo_tree(_REPOSITORY, repo_type="dataset", revision=commit)
            stored = next(getattr(entry, "lfs", None) for entry in listed if entry.path == name)
    except Exception as error:  # hub, HTTP and sockets have their own errors
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the disk
        url = hf_hub_url(_REPOSITORY, name, repo_type="dataset")
        place = f"and unpack it into {target / 'downstream'}" if name.endswith(".tar") else f"into {target}"
        raise InputError(
            f"cannot fetch from the hub ({first_line(error)}). On a machine with a network, download {url} "
            f"{place}; or evaluate with your own copy"
        ) from error
    if stored is not None and file_digest(file) != stored.sha256:
        file.resolve().unlink()  # the next call downloads it again
        raise InputError(f"the download of {name} is damaged (wrong checksum): try again")
    return file


def unpack_senteval(archive: Path, target: Path) -> None:
    """Unpack the folder of an archive that holds ``STS``, at any depth."""
    unpacked = target.with_name("unpacked")
    try:
        with tarfile.open(archive, "r:") as tar:  # uncompressed, so never larger than the download
            tar.extractall(unpacked, filter="data")
    except tarfile.TarError as error:
        raise InputError(f"cannot unpack {archive.name}: {first_line(error)}") from error
    found = [path.parent for path in unpacked.rglob("STS") if path.is_dir()]
    if not found:
        raise InputError(f"{archive.name} is not SentEval's data: it holds no folder STS")
    min(found, key=lambda path: len(path.parts)).rename(target)
    shutil.rmtree(unpacked, ignore_errors=True)
