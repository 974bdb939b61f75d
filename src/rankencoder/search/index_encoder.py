"""The model of an index: a RankEncoder or any encoder, as a function from sentences to unit vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankencoder.encoders import Encoder, check_encoder_name
from rankencoder.io.storage import absolute
from rankencoder.persistence import CONFIG
from rankencoder.search.calibration import SENTENCES

_NUMBERS = 50_000_000  # of the reference vectors that are held at once: the exact form has long ones


@dataclass
class SearchModel:
    """What makes the vectors of an index.

    :param encoder: From sentences to the vectors to search by.
    :param path: Where to load it from again; None for what is only in memory.
    :param reference: Makes the vectors of (a sample of) the model's reference corpus, where it has one.
    """

    encoder: Encoder
    path: str | None
    reference: Callable[[], np.ndarray] | None = None

    def __call__(self, sentences: list[str]) -> np.ndarray:
        """Return one unit vector per sentence, float32."""
        return np.asarray(self.encoder(sentences).cpu().numpy())


def check_model(source: Any) -> None:
    """Look whether a model that is given by name is there, without loading it.

    :raises InputError: If it is not.
    """
    if isinstance(source, (str, Path)) and not is_rank_encoder(source):
        check_encoder_name(str(source))


def is_rank_encoder(source: str | Path | None) -> bool:
    """Say whether something is the folder of a RankEncoder."""
    return source is not None and (Path(source) / CONFIG).exists()


def open_model(source: Any, *, device: str | None = None, batch_size: int = 32) -> SearchModel:
    """Open whatever makes sentence vectors.

    :param source: A RankEncoder or its folder; an encoder: a SentenceTransformer, its folder or hub name, or
        a callable from a list of strings to an array.
    :param device: Where to run what is loaded by name.
    :param batch_size: Sentences per call of the encoder.
    :raises InputError: If it is none of these.
    """
    from rankencoder.model import RankEncoder

    if isinstance(source, SearchModel):
        return source
    path = absolute(str(source)) if isinstance(source, (str, Path)) else None
    if path is not None and is_rank_encoder(path):
        source = RankEncoder.load(path, device=device, batch_size=batch_size)
    if isinstance(source, RankEncoder):
        return _of_rank_encoder(source, path)
    encoder = source if isinstance(source, Encoder) else Encoder(source, device=device, batch_size=batch_size)
    return SearchModel(encoder, path)


def _of_rank_encoder(model: Any, path: str | None) -> SearchModel:
    from rankencoder.blend import blend_vectors

    # the RankEncoder's own encoder makes the small batches
    encoder = Encoder(model.encode, batch_size=max(2048, model.encoder.batch_size))
    encoder.name = path or f"RankEncoder on {model.encoder.name}"

    def reference() -> np.ndarray:
        number = max(2, min(SENTENCES, len(model.reference), _NUMBERS // model.dimension))
        base = model.form.reference[:number]  # its sentences are in random order
        return np.asarray(blend_vectors(model.form(base), base, model.rank_weight).cpu().numpy())

    return SearchModel(encoder, path, reference)
