"""A model on its way to the machines of a cluster, which need not have it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.backends.opening import Opening
from rankencoder.encoder_sources import encoder_folder, join_prompt, rankencoder_folder, split_prompt
from rankencoder.encoders import Encoder
from rankencoder.io.files import fingerprint
from rankencoder.io.storage import absolute
from rankencoder.model import RankEncoder, open_model

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Shipped:
    """A model's folder as bytes in Ray's object store; a hub name stays a name."""

    def __init__(self, ray: Any, source: str | Path, **opening: Unpack[Opening]) -> None:
        name, self.prompt = split_prompt(str(source))
        name = str(rankencoder_folder(name) or encoder_folder(name))  # of a training's folder that alone
        self.source = str(absolute(name))
        self.files = {path: ray.put(Path(self.source, path).read_bytes()) for path in _files(self.source)}
        self.stamp = _stamp(self.source)
        self.opening = opening

    def open(self) -> RankEncoder | Encoder:
        """Open the model on this machine, from its folder where a shared disk has it."""
        import ray

        if _stamp(self.source) == self.stamp:
            return self._open(self.source)
        with tempfile.TemporaryDirectory(prefix="rankencoder-") as folder:
            for name, reference in self.files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(ray.get(reference))
            return self._open(folder)

    def _open(self, source: str) -> RankEncoder | Encoder:
        return open_model(join_prompt(source, self.prompt), **self.opening)


def same_everywhere(opening: Opening, opened: RankEncoder | Encoder, gpus: int) -> Opening:
    """Return how all machines are to open a model: where the backend is "auto", by that of this machine."""
    if opening.get("backend") != "auto":
        return opening
    if gpus and not (opening.get("device") or "").startswith("cpu"):
        return {**opening, "backend": "torch"}
    return {**opening, "backend": opened.backend.name, "precision": opened.backend.precision}


def _files(folder: str) -> list[str]:
    """Return the files of a folder, none of a hub name."""
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


def _stamp(folder: str) -> list[Any]:
    """Return what tells whether another machine has the same folder."""
    return [fingerprint(Path(folder, name)) for name in _files(folder)]
