"""Atomic writes of files and folders; checked reads of JSON, safetensors and .npy."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rankencoder.errors import InputError, MissingExtraError

CONFIG = "rankencoder.json"  # in a saved RankEncoder
RUN = "rankencoder-run.json"  # in a training run
RESULT = "_rankencoder.json"  # in a result of many files; Parquet readers ignore such names
FOUND = "duplicates.json"  # in a folder of near-duplicates
_ADDRESS = re.compile(r"(^|/)(s3|gs|gcs|az|abfs|adl|hf|https?|ftp|hdfs|memory|file):(?=/)")
_ADVICE = "build it again"  # what to do about a damaged file
_TORCH_WRITES = re.compile(r"inline_container|PytorchStreamWriter|iostream error")
_OURS = (CONFIG, "reference.json", RUN, RESULT, FOUND)


@contextmanager
def new_folder(target: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that replaces the target if the block succeeds."""
    target = check_free(target, overwrite=overwrite)
    temporary = _temporary(target)
    try:
        with write_errors_named(target):
            temporary.mkdir()
            mode = temporary.stat().st_mode & 0o666
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    file.chmod(mode)
            sync_tree(temporary)
        replace_folder(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def new_file(target: str | Path) -> Iterator[Path]:
    """Yield a temporary file name that replaces the target if the block succeeds."""
    target = Path(target).resolve()
    temporary = _temporary(target)
    try:
        with write_errors_named(target):
            temporary.touch()
            mode = temporary.stat().st_mode  # the default; some libraries write for the owner alone
            yield temporary
            temporary.chmod(mode)
            _sync(temporary)
        os.replace(temporary, target)
        _sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _temporary(target: Path) -> Path:
    """Return a temporary name beside a target; delete those of dead processes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    host = platform.node()
    for path in target.parent.glob(f".{glob.escape(target.name)}.{glob.escape(host)}-*.new"):
        owner = path.name.removesuffix(".new").rpartition("-")[2]
        if owner.isdigit() and int(owner) != os.getpid() and not _is_running(int(owner)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return target.with_name(f".{target.name}.{host}-{os.getpid()}.new")


def _is_running(process: int) -> bool:
    if os.name == "nt":
        return True  # unknown: os.kill would end it there
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def write_errors_named(target: Path) -> Iterator[None]:
    """Raise write errors of all libraries as an OSError that names the target."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not _TORCH_WRITES.search(str(error)):
            raise
        reason = getattr(error, "strerror", None) or f"{error} (is the disk full?)"
        raise OSError(getattr(error, "errno", None), f"cannot write {target}: {reason}") from error


def check_local(target: str | Path) -> None:
    """Raise an error for an address as a target: as a path it would become a folder named "s3:"."""
    if found := _ADDRESS.search(Path(target).as_posix()):
        raise InputError(
            f"{found[0].lstrip('/')}//… is an address, which only encoding on a Ray cluster can write: "
            "pass a local file or folder"
        )


def check_free(target: str | Path, *, overwrite: bool, training: bool = False) -> Path:
    """Return the resolved target after checking that nothing would be lost.

    :param training: Whether a training run may be overwritten.
    """
    check_local(target)
    target = Path(target).resolve()
    if target.exists() and not overwrite:
        raise InputError(f"{target} already exists: choose another name or set `overwrite`")
    if (target / RUN).exists() and not training:
        raise InputError(f"{target} holds a training run, which is never overwritten: choose another name")
    if target.is_dir() and any(target.iterdir()) and not any((target / name).exists() for name in _OURS):
        raise InputError(f"{target} is not from rankencoder, so it is never overwritten: choose another name")
    return target


def replace_folder(temporary: Path, target: Path) -> None:
    """Replace a target with a finished folder."""
    previous = previous_folder(target)
    if target.is_dir():
        shutil.rmtree(previous, ignore_errors=True)
        os.replace(target, previous)
    elif target.exists():
        raise InputError(f"{target} is a file: choose another name")
    try:
        os.replace(temporary, target)
    except OSError:
        if previous.is_dir() and not target.exists():
            os.replace(previous, target)
        raise
    _sync(target.parent)
    shutil.rmtree(previous, ignore_errors=True)


def previous_folder(target: Path) -> Path:
    """Return where a folder is kept while another replaces it."""
    return target.with_name(f".{target.name}.previous")


def sync_tree(folder: Path) -> None:
    """Flush all files of a folder to disk."""
    for path in folder.rglob("*"):
        _sync(path)
    _sync(folder)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _sync(path: Path) -> None:
    with suppress(PermissionError):  # some file systems do not let folders be opened
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cache_root(*parts: str) -> Path:
    """Return the cache folder, or a folder in it."""
    if given := os.environ.get("RANKENCODER_CACHE"):
        return Path(given, *parts)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "rankencoder", *parts)


def data_folder() -> Path:
    """Return the folder of downloaded data: ``$RANKENCODER_DATA``, or a folder of the cache."""
    if chosen := os.environ.get("RANKENCODER_DATA"):
        return Path(chosen).expanduser()
    return cache_root("data")


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, without holding all of the text in memory."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=2)
        file.write("\n")


def read_json(path: Path, version: int | None = None, *, advice: str = _ADVICE) -> dict[str, Any]:
    """Read a JSON object, and check its format version."""
    with damage_named(path, "JSON", ValueError, RecursionError, advice=advice):
        value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise InputError(f"{path} is damaged (not a JSON object); {advice}")
    if version is not None and (found := value.get("format")) != version:
        raise InputError(f"{path.parent} has format {found}, but this version reads {version}")
    return value


@contextmanager
def damage_named(path: Path, what: str, *errors: type[Exception], advice: str = _ADVICE) -> Iterator[None]:
    """Raise read errors as one that names the damaged file and says what to do."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(missing(path)) from None
    except (OSError, InputError):
        raise
    except errors as error:
        raise InputError(f"{path} is damaged (not {what}: {error}); {advice}") from error


def check_kinds(stored: dict[str, Any], path: Path, **kinds: type) -> dict[str, Any]:
    """Return the content of a file after checking the types of some values."""
    from pydantic import TypeAdapter, ValidationError

    for name, kind in kinds.items():
        try:
            TypeAdapter(kind).validate_python(stored.get(name), strict=True)
        except ValidationError as error:
            what = error.errors()[0]["msg"]
            raise InputError(f"{path} is damaged ({name!r}: {what}); build it again") from error
    return stored


def write_tensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Write arrays as safetensors."""
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path)


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    with damage_named(path, "a complete safetensors file", SafetensorError):
        return dict(load_file(path))


def read_array(path: Path, mmap_mode: Literal["r"] | None = None) -> np.ndarray:
    """Read an array of a ``.npy`` file, never a pickled one."""
    with damage_named(path, "a complete .npy file", Exception):  # numpy's header parser raises anything
        found: np.ndarray = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    return found


def missing(path: Path) -> str:
    """Return the error message for a missing file of a saved folder."""
    check_not_interrupted(path.parent)
    if not path.parent.exists():
        return f"no such folder: {path.parent}"
    return f"no {path.name} in {path.parent}: not a complete folder saved by rankencoder"


def check_not_interrupted(folder: Path) -> None:
    """Raise an error for a folder that an interrupted save left under another name."""
    folder = folder.resolve()
    previous = previous_folder(folder)
    if not folder.exists() and previous.is_dir():
        raise InputError(f"{folder} is missing, but a save was interrupted: rename {previous} to {folder}")


def import_pyarrow() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("tables need pyarrow", "data") from error
    return pa, pq


def absolute(name: Any) -> Any:
    """Return the absolute path of a file or folder; hub names stay as they are.

    >>> absolute("~/no/such/folder"), absolute("bert-base-uncased"), absolute(None)
    ('~/no/such/folder', 'bert-base-uncased', None)
    """
    path = Path(name).expanduser() if isinstance(name, str) and name else None
    return str(path.resolve()) if path is not None and path.exists() else name
