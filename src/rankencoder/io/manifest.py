"""``manifest.json``: the size and SHA-256 of each file of a saved folder, checked on load."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError
from rankencoder.io.storage import check_kinds, file_digest, new_file, read_json, write_json

MANIFEST = "manifest.json"


def write_manifest(folder: Path, files: Iterable[Path] | None = None) -> None:
    """Write the manifest of a folder, after all of its files.

    :param files: The files that will not change later; by default all of the folder.
    """
    entries = folder_entries(folder, files)
    with new_file(folder / MANIFEST) as path:
        write_json(path, {"files": entries})


def folder_entries(folder: Path, files: Iterable[Path] | None = None) -> dict[str, dict[str, Any]]:
    """Return the manifest entries of files of a folder, by default of all."""
    given = (path for path in folder.rglob("*") if path.is_file()) if files is None else files
    listed = {path.relative_to(folder).as_posix(): path for path in given if path != folder / MANIFEST}
    return {name: file_entry(listed[name]) for name in sorted(listed)}


def check_manifest(
    folder: Path,
    *,
    skip: str = "",
    advice: str = "build it again",
    known: dict[str, Any] | None = None,
) -> bool:
    """Check that the files of a folder are undamaged.

    :param skip: A subfolder not to check.
    :param advice: What to do about a damaged folder.
    :param known: Entries for a folder without a manifest; earlier versions stored SHA-256 alone.
    :return: Whether there is a manifest; folders of earlier versions have none.
    """
    exists = (folder / MANIFEST).exists()
    if exists:
        entries = check_kinds(read_json(folder / MANIFEST), folder / MANIFEST, files=dict)["files"]
    else:
        entries = known or {}
    for name, entry in entries.items():
        path = folder / name
        if skip and name.startswith(f"{skip}/"):
            continue
        if not path.is_file():
            raise InputError(f"{path} is missing: {advice}")
        if entry not in (found := file_entry(path), found["sha256"]):
            raise InputError(f"{path} is damaged: its checksum differs; {advice}")
    return exists


def file_entry(path: Path) -> dict[str, Any]:
    """Return the manifest entry of a file."""
    return {"size": path.stat().st_size, "sha256": file_digest(path)}
