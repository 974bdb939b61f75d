"""The explorer's state: a RankEncoder, an optional index, and cached results."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

from rankencoder.explain import EncodedSentence
from rankencoder.explorer.random_pairs import RandomPairs
from rankencoder.explorer.space_maps import draw
from rankencoder.labels.fitted_curve import find_curve
from rankencoder.model import RankEncoder

MAX_NEIGHBORS = 100


class ExplorerState:
    """A RankEncoder that several people explore at once, with an optional index made with it.

    :param desk: The `LabelDesk`, to label pairs of the index.
    """

    def __init__(
        self, model: RankEncoder, index: Any = None, name: str = "RankEncoder", *, desk: Any = None
    ) -> None:
        self.model, self.index, self.name, self.desk = model, index, name, desk
        self.lock = threading.RLock()  # encoders are not thread-safe
        self._drawing_lock, self._maps = threading.Lock(), dict[str, dict[str, Any]]()
        self._described = lru_cache(512)(lambda sentence: model.describe([sentence], MAX_NEIGHBORS)[0])
        self.pairs = RandomPairs(model)
        if index is not None:
            _ = index.model, index.calibration  # opened now rather than at the first search
        self.curve = index.curve if index is not None and index.model is model else find_curve(model)

    def maps(self, kind: str = "PCA") -> dict[str, Any]:
        """Return the maps of both spaces, drawn on first use."""
        with self._drawing_lock:
            if kind not in self._maps:
                self._maps[kind] = draw(self.model, kind)
            return self._maps[kind]

    @property
    def rank_name(self) -> str:
        """The name of the similarity blended with cosine, which is not always that of ranks."""
        label = self.model.form.label
        return "rank similarity" if label == "ranks" else label.replace("-", "−")

    def describe(self, sentence: str) -> EncodedSentence:
        """Encode a sentence and find its nearest reference sentences; recent ones are cached."""
        with self.lock:
            return self._described(sentence)
