"""The model behind a server: a RankEncoder, or any encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.model import RankEncoder
from rankencoder.persistence import CONFIG

_ON_CPU, _ON_GPU = 16, 64  # a CPU gains nothing from more: they outgrow its caches, and are padded more


class Encoded(NamedTuple):
    """Vectors of sentences, and how many tokens of each the encoder read."""

    vectors: np.ndarray
    tokens: list[int]


class Served:
    """One way to ask a RankEncoder and a plain encoder. Not for several threads at once.

    :param model: Either; an encoder's vectors are its unit vectors, and it explains nothing.
    """

    def __init__(self, model: RankEncoder | Encoder) -> None:
        self.ranked = model if isinstance(model, RankEncoder) else None
        self.encoder = model.encoder if isinstance(model, RankEncoder) else model
        self.dimension = int(self.encode(["Warm up."]).vectors.shape[1])

    def encode(self, sentences: list[str]) -> Encoded:
        """Return the vectors of sentences that were checked, and their tokens."""
        if self.ranked is not None:
            vectors = self.ranked.encode(sentences)
        else:
            vectors = self.encoder(sentences).cpu().numpy()
        return Encoded(vectors, self._tokens(sentences))

    def explain(self, a: str, b: str, k: int) -> tuple[dict[str, Any], int]:
        """Return a RankEncoder's explanation of two sentences, and how many tokens were read."""
        assert self.ranked is not None
        return self.ranked.explain(a, b, k).to_dict(), sum(self._tokens([a, b]))

    def _tokens(self, sentences: list[str]) -> list[int]:
        counts, longest = count_tokens(self.encoder, sentences)
        return [int(min(count, longest)) for count in counts]


def count_tokens(encoder: Encoder, sentences: list[str]) -> tuple[list[int], float]:
    """Return the tokens of sentences (words where there is no tokenizer), and how many the encoder reads."""
    tokenizer: Any = getattr(encoder.model, "tokenizer", None)
    if encoder.model is None or not callable(tokenizer):
        return [len(text.split()) for text in sentences], float("inf")
    longest = getattr(encoder.model, "max_seq_length", None) or float("inf")
    ids = tokenizer(sentences, add_special_tokens=True, verbose=False)["input_ids"]
    return [len(row) for row in ids], longest


def open_served(source: str, *, device: str | None, batch_size: int | None) -> Served:
    """Load a RankEncoder's folder, or an encoder by folder or hub name.

    :param batch_size: Sentences per call of the encoder; by default as suits the device.
    :raises InputError: If it is neither.
    """
    given: dict[str, Any] = {"device": device, "batch_size": batch_size or _ON_GPU}
    ranked = (Path(source) / CONFIG).exists()
    model = RankEncoder.load(source, **given) if ranked else Encoder(source, **given)
    encoder = model.encoder if isinstance(model, RankEncoder) else model
    if batch_size is None and encoder.device.type == "cpu":
        encoder.batch_size = _ON_CPU
    return Served(model)


def open_index(folder: Path, served: Served) -> Any:
    """Open an index to search with the served model's vectors.

    :raises InputError: If there is none, or it was made with another model.
    """
    from rankencoder.search import RankIndex

    index = RankIndex.load(folder, served.ranked or served.encoder)
    _ = index.model, index.calibration  # now, and not in the first request
    return index
