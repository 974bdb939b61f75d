"""Files of the hub's data sets, checked against the hub's own checksums."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rankencoder.errors import InputError
from rankencoder.io.storage import file_digest

_DATA_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".csv", ".csv.gz", ".parquet", "README.md")


def file_url(repository: str, revision: str, name: str) -> str:
    """Return a file's address."""
    from huggingface_hub import hf_hub_url

    return hf_hub_url(repository, name, repo_type="dataset", revision=revision)


def tree_url(repository: str, revision: str) -> str:
    """Return the address of a data set's list of files, for people."""
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/datasets/{repository}/tree/{revision}"


def list_data_files(repository: str, revision: str) -> list[str]:
    """Return the names of a data set's data files, and of its card, which says what they are.

    :raises InputError: If a name leads out of the data set.
    """
    from huggingface_hub import HfApi

    # unlike list_repo_files, this does not try for half a minute where there is no network
    about = HfApi().dataset_info(repository, revision=revision, timeout=10)
    names = [file.rfilename for file in about.siblings or ()]
    if outside := [name for name in names if name.startswith("/") or ".." in name.split("/")]:
        raise InputError(f"{repository} lists {outside[0]!r}, which is no file of a data set")
    return [name for name in names if name.endswith(_DATA_SUFFIXES)]


def download(repository: str, revision: str, name: str, folder: Path) -> str:
    """Download a file into a folder and return the commit that it is of; a lost connection is taken up again.

    :raises InputError: If its checksum is not the hub's; the folder is emptied then.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_download

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # not a line for each retry
    url = file_url(repository, revision, name)
    metadata = get_hf_file_metadata(url)
    commit = metadata.commit_hash or revision
    path = Path(hf_hub_download(repository, name, repo_type="dataset", revision=commit, local_dir=folder))
    found = _hub_checksum(path, metadata.etag or "")
    if found != metadata.etag:
        shutil.rmtree(folder)
        raise InputError(
            f"{url} arrived damaged: its checksum is {found}, the hub's {metadata.etag}; nothing was "
            "installed, try again"
        )
    return commit


def _hub_checksum(path: Path, etag: str) -> str:
    """Return a file's checksum of the hub's kind: SHA-256 of a large file, git's SHA-1 of a small one."""
    if len(etag) == 40:
        header = f"blob {path.stat().st_size}\0".encode()
        return file_digest(path, hashlib.sha1(header, usedforsecurity=False))
    return file_digest(path)


@contextmanager
def download_bars(shown: bool) -> Iterator[None]:
    """Show the hub's progress bars or not."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if shown or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
