"""The model behind a server: a RankEncoder or a plain encoder."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.model import RankEncoder


class Encoded(NamedTuple):
    """Vectors of sentences, and how many tokens of each the encoder read."""

    vectors: np.ndarray
    tokens: list[int]


class ServedModel:
    """One way to ask a RankEncoder and a plain encoder. Not for several threads at once.

    :param model: Either; a plain encoder explains nothing.
    """

    def __init__(self, model: RankEncoder | Encoder) -> None:
        self.model = model
        self.rank_encoder = model if isinstance(model, RankEncoder) else None
        self._encoder = model.encoder if isinstance(model, RankEncoder) else model
        self.dimension = int(self.encode(["Warm up."]).vectors.shape[1])

    def encode(self, sentences: list[str]) -> Encoded:
        """Return the vectors of sentences, and their tokens."""
        return Encoded(self.model.encode(sentences), self._count_tokens(sentences))

    def explain(self, a: str, b: str, k: int) -> tuple[dict[str, Any], int]:
        """Return a RankEncoder's explanation of two sentences, and how many tokens were read."""
        assert self.rank_encoder is not None
        return self.rank_encoder.explain(a, b, k).to_dict(), sum(self._count_tokens([a, b]))

    def _count_tokens(self, sentences: list[str]) -> list[int]:
        counts, longest = self._encoder.count_tokens(sentences)
        return [int(min(count, longest)) for count in counts]
