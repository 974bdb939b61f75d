"""A model on its way to the machines of a cluster, which need not have it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rankencoder.encoder_sources import encoder_folder, join_prompt, rankencoder_folder, split_prompt
from rankencoder.io.storage import absolute


class Shipped:
    """A model's folder as bytes in Ray's object store; a hub name stays a name."""

    def __init__(self, ray: Any, source: str | Path) -> None:
        name, self.prompt = split_prompt(str(source))
        name = str(rankencoder_folder(name) or encoder_folder(name))  # of a training's folder that alone
        self.source = str(absolute(name))
        folder = Path(self.source)
        self.files = {str(path.relative_to(folder)): ray.put(path.read_bytes()) for path in _files(folder)}
        self.stamp = _stamp(folder)

    @contextmanager
    def unpacked(self) -> Iterator[str]:
        """Give the folder or name to load the model from on this machine; once loaded, it may go."""
        import ray

        if not self.files or _stamp(Path(self.source)) == self.stamp:
            yield join_prompt(self.source, self.prompt)
            return
        with tempfile.TemporaryDirectory(prefix="rankencoder-") as folder:
            for name, reference in self.files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(ray.get(reference))
            yield join_prompt(folder, self.prompt)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []


def _stamp(folder: Path) -> str:
    """Return what tells whether another machine has the same folder, by a shared disk."""
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in _files(folder)]
    return hashlib.sha256(repr(stats).encode()).hexdigest()
