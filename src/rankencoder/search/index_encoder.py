"""The model of an index: whatever makes its vectors, and the vectors that calibrate their scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rankencoder.encoder_sources import join_prompt, split_prompt
from rankencoder.encoders import Encoder
from rankencoder.io.storage import absolute
from rankencoder.search.calibration import SENTENCES, Calibration

REFERENCE = "the model's reference corpus"
_HELD = 50_000_000  # dimensions of all reference vectors that are held at once: the exact form has long ones


class IndexEncoder:
    """What makes the vectors of an index, of whatever `rankencoder.model.open_model` opens."""

    def __init__(self, source: Any, *, device: str | None = None, batch_size: int = 32) -> None:
        from rankencoder.model import RankEncoder, open_model

        model = open_model(source, device=device, batch_size=batch_size)
        self._ranked = model if isinstance(model, RankEncoder) else None
        self.path: str | None = None  # where to load it from again; None for what is only in memory
        if isinstance(source, (str, Path)):
            name, prompt = split_prompt(str(source))
            self.path = join_prompt(absolute(name), prompt)
        if isinstance(model, RankEncoder):
            # the RankEncoder's own encoder makes the small batches
            self.encoder = Encoder(model.encode, batch_size=max(2048, model.encoder.batch_size))
            self.encoder.name = self.path or model.name
        else:
            self.encoder = model

    def __call__(self, sentences: list[str], *, progress: bool = False) -> np.ndarray:
        """Return one unit vector per sentence, float32."""
        return np.asarray(self.encoder(sentences, progress=progress).cpu().numpy())

    def calibrate(self) -> Calibration | None:
        """Calibrate scores on the reference corpus; None for a plain encoder, which has none."""
        model = self._ranked
        if model is None:
            return None
        size = max(2, min(SENTENCES, len(model.reference), _HELD // model.dimension))
        base = model.form.reference[:size]  # its sentences are in random order
        return Calibration.measure(model.blend(base).cpu().numpy(), REFERENCE)


def open_encoder(source: Any, *, device: str | None = None, batch_size: int = 32) -> IndexEncoder:
    """Open the model of an index, if it is not open already."""
    if isinstance(source, IndexEncoder):
        return source
    return IndexEncoder(source, device=device, batch_size=batch_size)
