"""What the page is about: a RankEncoder, an index perhaps, and what was computed of them so far."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from rankencoder.blend import blend_vectors
from rankencoder.explain import Described
from rankencoder.explorer.background import Background
from rankencoder.explorer.once import Once
from rankencoder.explorer.search_results import Searched, searched_index, searched_reference
from rankencoder.explorer.space_maps import Maps, draw
from rankencoder.model import RankEncoder
from rankencoder.server.served_model import count_tokens

MOST_NEIGHBORS = 100
_REMEMBERED = 512  # sentences


class Explored:
    """A RankEncoder to explore, by several people at once.

    :param index: An index made with the same model, or None.
    :param name: What to call the model.
    """

    def __init__(self, model: RankEncoder, index: Any = None, name: str = "RankEncoder") -> None:
        self.model, self.index, self.name = model, index, name
        self._lock = threading.RLock()  # encoders are not for several threads at once
        self._described: OrderedDict[str, Described] = OrderedDict()
        self.background = Once(lambda: Background(model))
        self.maps: Once[Maps] = Once(lambda: draw(model))
        self.searched: Once[Searched] = Once(self._open_search)

    def describe(self, sentence: str) -> Described:
        """Encode a sentence, unless it was among the last ones, and find its nearest reference sentences.

        :raises InputError: If it is empty, or far too long.
        """
        with self._lock:
            known = self._described.pop(sentence, None)
            found = known or self.model.describe([sentence], MOST_NEIGHBORS)[0]
            self._described[sentence] = found
            if len(self._described) > _REMEMBERED:
                self._described.popitem(last=False)
            return found

    def unread(self, sentence: str) -> tuple[int, int] | None:
        """Return the tokens of a sentence and how many the encoder reads, where that is not all of them."""
        with self._lock:
            (number,), longest = count_tokens(self.model.encoder, [sentence])
        return (number, int(longest)) if number > longest else None

    def encode(self, sentence: str) -> np.ndarray:
        """Return what the model's `encode` does."""
        found = self.describe(sentence)
        vectors = blend_vectors(found.ranks[None], found.vector[None], self.model.rank_weight)
        return np.asarray(vectors[0].cpu().numpy())

    def _open_search(self) -> Searched:
        if self.index is not None:
            return searched_index(self.index, self.encode)
        calibration = self.background().calibration(self.model.rank_weight)
        return searched_reference(self.model, self.encode, calibration)
