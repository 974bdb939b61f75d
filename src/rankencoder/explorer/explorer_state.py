"""The explorer's state: a RankEncoder, an optional index, random pairs and cached results."""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rankencoder.blend import blend
from rankencoder.explain import EncodedSentence
from rankencoder.explorer.space_maps import draw
from rankencoder.labels.fitted_curve import find_curve
from rankencoder.model import RankEncoder
from rankencoder.search.calibration import REFERENCE, Calibration, pair_similarities

MAX_NEIGHBORS = 100
SENTENCES = 2000  # reference sentences to compare with each other: about two million pairs
_EXAMPLES = 24
_SHORTEST, _LONGEST = 20, 140  # characters of an easily read sentence
_ALIKE = 0.6  # share of words that near-duplicates have in common


class ExplorerState:
    """A RankEncoder that several people explore at once, with an optional index.

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
        """The name of the similarity blended with cosine: ranks or a power."""
        label = self.model.form.label
        return "rank similarity" if label == "ranks" else label.replace("-", "−")

    def describe(self, sentence: str) -> EncodedSentence:
        """Encode a sentence and find its nearest reference sentences; recent ones are cached."""
        with self.lock:
            return self._described(sentence)


class Example(NamedTuple):
    """A sentence, a near-paraphrase, and its nearest by ranks (or the next by cosine, if both agree)."""

    a: str
    b: str
    c: str


class RandomPairs:
    """All pairs of a random sample of the reference corpus, by cosine and by ranks."""

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
    """Choose sentences whose nearest neighbor is a near-paraphrase, best first."""
    cosines, by_ranks = base @ base.T, ranks @ ranks.T
    for similarities in (cosines, by_ranks):
        np.fill_diagonal(similarities, -np.inf)
    nearest = cosines.argmax(axis=1)
    words = [set(re.findall(r"\w+", text.lower())) for text in sentences[: len(base)]]

    def worth(i: int) -> float:
        a, b = words[i], words[nearest[i]]
        shared = len(a & b) / max(1, len(a | b))
        fits = all(_SHORTEST <= len(sentences[j]) <= _LONGEST for j in (i, nearest[i]))
        return float(cosines[i, nearest[i]]) - shared - (not fits) - (shared > _ALIKE)

    found, seen = list[Example](), set[int]()
    for a in sorted(range(len(base)), key=worth, reverse=True):
        b = int(nearest[a])
        if {a, b} & seen:
            continue
        seen |= {a, b}
        others = by_ranks[a] if by_ranks[a].argmax() != b else cosines[a]
        c = next((int(j) for j in np.argsort(-others) if j not in (a, b)), None)
        found.append(Example(sentences[a], sentences[b], "" if c is None else sentences[c]))
        if len(found) == _EXAMPLES:
            break
    return found
