"""What the page is about: a RankEncoder, an index perhaps, and what was computed of them so far."""

from __future__ import annotations

import threading
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from rankencoder.blend import blend_vectors
from rankencoder.explain import Described
from rankencoder.explorer.random_pairs import RandomPairs
from rankencoder.explorer.search_results import IndexSearch, ReferenceSearch, Searcher
from rankencoder.explorer.space_maps import Maps, draw
from rankencoder.model import RankEncoder

MOST_NEIGHBORS = 100
_REMEMBERED = 512  # sentences


class ExplorerState:
    """A RankEncoder to explore by several people at once, and perhaps an index made with it."""

    def __init__(self, model: RankEncoder, index: Any = None, name: str = "RankEncoder") -> None:
        self.model, self.index, self.name = model, index, name
        self._lock = threading.RLock()  # encoders are not for several threads at once
        self._described = lru_cache(_REMEMBERED)(self._describe)
        self.pairs = RandomPairs(model)
        calibration = self.pairs.calibration(model.rank_weight)
        self.search: Searcher = (
            ReferenceSearch(model, self.encode, calibration)
            if index is None
            else IndexSearch(index, self._lock)
        )

    @cached_property
    def maps(self) -> Maps:
        """The maps of both spaces, drawn when they are first looked at."""
        return draw(self.model)

    @property
    def rank_name(self) -> str:
        """What to call the similarity of the rank part, which is not always one of ranks."""
        label = self.model.form.label
        return "rank similarity" if label == "ranks" else label.replace("-", "−")

    def describe(self, sentence: str) -> Described:
        """Encode a sentence, unless it was among the last ones, and find its nearest reference sentences."""
        with self._lock:
            return self._described(sentence)

    def _describe(self, sentence: str) -> Described:
        return self.model.describe([sentence], MOST_NEIGHBORS)[0]

    def count_tokens(self, sentence: str) -> tuple[int, float]:
        """Return the tokens of a sentence, and how many the encoder reads at most."""
        with self._lock:
            (number,), longest = self.model.encoder.count_tokens([sentence])
        return number, longest

    def encode(self, sentence: str) -> np.ndarray:
        """Return the vector that the model's `encode` returns."""
        found = self.describe(sentence)
        vectors = blend_vectors(found.ranks[None], found.vector[None], self.model.rank_weight)
        return np.asarray(vectors[0].cpu().numpy())
