"""Folders of safetensors and JSON that are written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from rankencoder.errors import InputError


@contextmanager
def new_folder(target: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary folder to fill, which takes the target's place when the block ends without an error.

    :raises InputError: If the target exists and is not to be overwritten.
    """
    target = Path(target)
    check_free(target, overwrite=overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".new", dir=target.parent))
    try:
        temporary.chmod(0o755)
        with _write_errors_as_os_errors(target):
            yield temporary
        sync_tree(temporary)
        _replace_folder(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def new_file(target: str | Path) -> Iterator[Path]:
    """Give a temporary file name to write, which takes the target's place when the block ends well."""
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with _write_errors_as_os_errors(target):
            yield temporary
        _sync(temporary)
        os.replace(temporary, target)
        _sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _write_errors_as_os_errors(target: Path) -> Iterator[None]:
    """Let a full disk look the same whichever library met it."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or f"{error} (is the disk full?)"
        raise OSError(getattr(error, "errno", None), f"cannot write {target}: {reason}") from error


def check_free(target: Path, *, overwrite: bool) -> None:
    """Refuse to write where something is, unless told to overwrite."""
    if target.exists() and not overwrite:
        raise InputError(f"{target} already exists: choose another name, or overwrite it")


def _replace_folder(temporary: Path, target: Path) -> None:
    previous = target.with_name(f".{target.name}.previous")
    if target.exists():
        shutil.rmtree(previous, ignore_errors=True)
        os.replace(target, previous)
    os.replace(temporary, target)
    _sync(target.parent)
    if previous.is_dir():
        shutil.rmtree(previous, ignore_errors=True)
    else:
        previous.unlink(missing_ok=True)


def sync_tree(folder: Path) -> None:
    """Make sure that all files of a folder are on the disk."""
    for path in folder.rglob("*"):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    with suppress(PermissionError):  # some file systems do not let folders be opened
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    :raises InputError: If there is no such file, or something else in it.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(missing(path)) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged (not JSON: {error}); build it again") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} is damaged (not a JSON object); build it again")
    return value


def write_tensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Write arrays as safetensors."""
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path)


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a safetensors file.

    :raises InputError: If there is no such file, or it is not a whole safetensors file.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(load_file(path))
    except FileNotFoundError:
        raise InputError(missing(path)) from None
    except SafetensorError as error:
        raise InputError(
            f"{path} is damaged (not a whole safetensors file: {error}); build it again"
        ) from error


def missing(path: Path) -> str:
    """Say that a file of a saved folder is not there, and where an interrupted save may have left it."""
    previous = path.parent.with_name(f".{path.parent.name}.previous")
    if previous.is_dir() and not path.parent.exists():
        return f"{path.parent} is missing, but a save was interrupted: rename {previous} to {path.parent}"
    return f"no {path.name} in {path.parent}: not a complete folder saved by rankencoder"


def import_pyarrow() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet.

    :raises InputError: If they are not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError("Parquet files need pyarrow: pip install 'rankencoder[data]'") from error
    return pa, pq
