"""Random pairs of reference sentences: what similarities mean at any rank weight, and examples."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rankencoder.blend import blend
from rankencoder.model import RankEncoder
from rankencoder.search.calibration import Calibration, pair_similarities
from rankencoder.search.index_encoder import REFERENCE

SENTENCES = 2000  # reference sentences that are compared with each other, at most: some two million pairs
_RELATED = 99.0  # the percentile of random pairs from which on two sentences have to do with each other
_LENGTHS = (25, 110)  # characters of a sentence that reads well as an example
_EXAMPLES = 24


class Example(NamedTuple):
    """Three sentences: cosine puts the first nearer to the second, ranks put it nearer to the third."""

    a: str
    b: str
    c: str


class RandomPairs:
    """All pairs of a sample of the reference corpus, which is in random order, by cosine and by ranks."""

    def __init__(self, model: RankEncoder) -> None:
        base = model.form.reference[:SENTENCES]
        self.sentences = model.reference.sentences[: len(base)]
        self._base, self._ranks = base.cpu().numpy(), model.form(base).cpu().numpy()
        self._cosines = np.concatenate(list(pair_similarities(self._base)))
        self._rank_similarities = np.concatenate(list(pair_similarities(self._ranks)))
        self.number = len(self._cosines)
        self.calibration = lru_cache(maxsize=256)(self._calibrate)
        self.examples = self._examples()

    def _calibrate(self, rank_weight: float) -> Calibration:
        similarities = blend(self._rank_similarities, self._cosines, rank_weight)
        return Calibration.of_similarities([similarities], REFERENCE)

    def _examples(self) -> list[Example]:
        """Find sentences of which cosine and ranks say different things, clearest first."""
        spaces = []
        related = np.ones((len(self._base), len(self._base)), dtype=bool)
        shortest, longest = _LENGTHS
        readable = np.array([shortest <= len(text) <= longest for text in self.sentences])
        for vectors, pairs in ((self._base, self._cosines), (self._ranks, self._rank_similarities)):
            matrix = vectors @ vectors.T
            related &= matrix >= np.percentile(pairs, _RELATED)
            spaces.append((matrix - pairs.mean()) / max(float(pairs.std()), 1e-9))
        related &= readable[:, None] & readable[None]
        np.fill_diagonal(related, False)
        found = []
        for a in np.flatnonzero(related.sum(axis=1) > 1):
            near = np.flatnonzero(related[a])
            cosine, ranks = (space[a, near] for space in spaces)
            b, c = int(np.argmax(cosine - ranks)), int(np.argmin(cosine - ranks))
            margin = float(min(cosine[b] - cosine[c], ranks[c] - ranks[b]))
            if margin > 0:
                found.append((margin, int(a), int(near[b]), int(near[c])))
        chosen: list[Example] = []
        used: set[int] = set()
        for _, *triple in sorted(found, reverse=True):
            if len(chosen) < _EXAMPLES and not used & set(triple):
                used.update(triple)
                chosen.append(Example(*(self.sentences[i] for i in triple)))
        return chosen or [self._plain_example()]

    def _plain_example(self) -> Example:
        """Return the nearest two sentences, where nothing else can be said."""
        matrix = self._base @ self._base.T
        np.fill_diagonal(matrix, -np.inf)
        a, b = divmod(int(matrix.argmax()), len(matrix))
        return Example(self.sentences[a], self.sentences[b], "")
