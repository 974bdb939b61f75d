"""Random pairs of reference sentences: what similarities mean at any rank weight, and examples."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rankencoder.blend import blend
from rankencoder.model import RankEncoder
from rankencoder.search.calibration import REFERENCE, Calibration, pair_similarities

SENTENCES = 2000  # reference sentences that are compared with each other, at most: some two million pairs
_EXAMPLES = 24


class Example(NamedTuple):
    """Three sentences: cosine puts the first nearest to the second, ranks put it nearest to the third.

    There is no third one where both are the same.
    """

    a: str
    b: str
    c: str


class RandomPairs:
    """All pairs of a sample of the reference corpus, which is in random order, by cosine and by ranks."""

    def __init__(self, model: RankEncoder) -> None:
        base = model.form.reference[:SENTENCES]
        spaces = [rows.cpu().numpy() for rows in (base, model.form(base))]
        self._cosines, self._rank_similarities = (np.concatenate([*pair_similarities(s)]) for s in spaces)
        self.number = len(self._cosines)
        self.calibration = lru_cache(maxsize=256)(self._calibrate)
        self.examples = _examples(model.reference.sentences, *spaces)

    def _calibrate(self, rank_weight: float) -> Calibration:
        similarities = blend(self._rank_similarities, self._cosines, rank_weight)
        return Calibration.of_similarities([similarities], REFERENCE)


def _examples(sentences: list[str], base: np.ndarray, ranks: np.ndarray) -> list[Example]:
    """Take sentences with their nearest by cosine and by ranks, those first where these differ."""
    nearest = []
    for vectors in (base, ranks):
        similarities = vectors @ vectors.T
        np.fill_diagonal(similarities, -np.inf)
        nearest.append(similarities.argmax(axis=1))
    by_cosine, by_ranks = nearest
    chosen = np.argsort(by_cosine == by_ranks, kind="stable")[:_EXAMPLES]
    return [
        Example(sentences[a], sentences[b], "" if b == c else sentences[c])
        for a, b, c in zip(chosen, by_cosine[chosen], by_ranks[chosen], strict=True)
    ]
