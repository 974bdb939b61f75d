"""Calibrated similarities: the share of random pairs that a score is higher than."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.model import RankEncoder

REFERENCE = "the model's reference corpus"
SENTENCES = 10_000  # whose pairs a calibration is made of, at most
_BINS = 2**20  # of similarities from -1 to 1
_BLOCK = 1024
_PER_DECADE = 30
_ROUNDING = 1e-6  # of the same similarity, computed in other ways
_HELD = 50_000_000  # dimensions of all reference vectors that are held at once: the exact form has long ones


@dataclass(frozen=True, eq=False)
class Calibration:
    """The distribution of the similarities of random pairs, finely in its upper tail.

    :param similarities: Increasing similarities.
    :param shares: The share of random pairs at or above each of them, decreasing.
    :param highest: The similarity of the most similar random pair.
    :param pairs: How many pairs were looked at: a share below 1/pairs cannot be told.
    :param source: Which sentences the pairs are of, for people.

    >>> vectors = np.random.default_rng(0).normal(size=(1000, 16)).astype(np.float32)
    >>> calibration = Calibration.measure(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), "noise")
    >>> calibration.describe(0.7)
    'higher than 99.9% of random pairs'
    >>> calibration.describe(1.0)
    'higher than all 499,500 random pairs'
    """

    similarities: np.ndarray
    shares: np.ndarray
    highest: float
    pairs: int
    source: str

    @classmethod
    def measure(cls, vectors: np.ndarray, source: str) -> Calibration:
        """Take the distribution over all pairs of some unit vectors."""
        if len(vectors) < 2:
            raise InputError(f"scores are calibrated on pairs: {len(vectors)} of {source} is too few")
        return cls.of_similarities(pair_similarities(vectors), source)

    @classmethod
    def on_reference(cls, model: RankEncoder) -> Calibration:
        """Take the distribution over the pairs of a model's reference corpus."""
        size = max(2, min(SENTENCES, len(model.reference), _HELD // model.dimension))
        base = model.form.reference[:size]  # its sentences are in random order
        return cls.measure(model.blend(base).cpu().numpy(), REFERENCE)

    @classmethod
    def of_similarities(cls, parts: Iterable[np.ndarray], source: str) -> Calibration:
        """Take the distribution of the similarities of random pairs, which come part by part."""
        counts, highest = np.zeros(_BINS, dtype=np.int64), -1.0
        for part in parts:
            highest = max(highest, float(part.max(initial=-1.0)))
            bins = ((part + 1) * (_BINS / 2)).astype(np.int32)
            counts += np.bincount(bins.clip(0, _BINS - 1), minlength=_BINS)
        pairs = int(counts.sum())
        above = counts[::-1].cumsum()[::-1] / pairs  # the share at or above each bin's lower edge
        tail = np.logspace(log10(0.5), -log10(pairs), ceil(log10(pairs) * _PER_DECADE))
        shares = np.concatenate([np.linspace(1, 0.5, 51)[:-1], tail])
        # the highest edge that still has such a share above it; rounding must not lose the last pair
        edges = np.unique(np.searchsorted(-above, -shares * (1 - 1e-9), side="right") - 1)
        return cls(edges / (_BINS / 2) - 1, above[edges], highest, pairs, source)

    @property
    def finest(self) -> float:
        """The highest percentile that so many pairs can tell."""
        return 100 * (1 - 1 / self.pairs)

    def percentile(self, similarity: Any) -> Any:
        """Return the per cent of random pairs that a similarity is higher than, at most `finest`."""
        logs = np.interp(similarity, self.similarities, np.log(self.shares), left=0.0)
        return np.where(self.is_above_all(similarity), self.finest, 100 * (1 - np.exp(logs)))[()]

    def is_above_all(self, similarity: Any) -> Any:
        """Say whether no random pair is as similar."""
        return np.asarray(similarity) > self.highest + _ROUNDING

    def similarity_at(self, percentile: float) -> float:
        """Return the similarity that is higher than so many per cent of random pairs."""
        if not 0 <= percentile < 100:
            raise InputError(f"{percentile:g}% is no share of random pairs: choose from 0% to below 100%")
        if percentile > self.finest:
            raise InputError(
                f"{percentile:.10g}% is finer than {self.pairs:,} random pairs of {self.source} can tell: "
                f"{_percent(100 / self.pairs)} is the highest; or give a similarity, such as 0.9"
            )
        logs = np.log(self.shares)
        return float(np.interp(-np.log(1 - percentile / 100), -logs, self.similarities))

    def percent(self, similarity: float) -> str:
        """Return "99.97%", with as many digits as its distance from 100 needs."""
        if self.is_above_all(similarity):
            return f">{_percent(100 / self.pairs, down=False)}"
        return _percent(100 - float(self.percentile(similarity)))

    def describe(self, similarity: float) -> str:
        """Say how a similarity compares with those of random pairs."""
        if self.is_above_all(similarity):
            return f"higher than all {self.pairs:,} random pairs"
        return f"higher than {self.percent(similarity)} of random pairs"

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {
            "pairs": self.pairs,
            "source": self.source,
            "similarities": self.similarities.round(7).tolist(),
            "shares": [float(f"{share:.9g}") for share in self.shares],
            "highest": self.highest,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], path: Path) -> Calibration:
        """Read what `to_dict` returned and a file holds."""
        try:
            similarities, shares = np.array([stored["similarities"], stored["shares"]], dtype=np.float64)
            highest, pairs, source = float(stored["highest"]), int(stored["pairs"]), str(stored["source"])
            finite = np.isfinite([*similarities, *shares, highest]).all() and pairs > 0
            in_order = (np.diff(similarities) >= 0).all() and (np.diff(shares) <= 0).all()
            if not (finite and in_order and 0 < shares[-1] <= shares[0] <= 1):
                raise ValueError("no shares of random pairs")
        except (KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
            raise InputError(f"{path} is damaged ({error}): delete it, it is made again") from error
        return cls(similarities, shares, highest, pairs, source)


def pair_similarities(vectors: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the similarities of all pairs of some unit vectors, part by part and always in one order."""
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK] @ vectors[start:].T
        yield block[np.triu(np.ones(block.shape, dtype=bool), k=1)]


def _percent(above: float, *, down: bool = True) -> str:
    """Return 100 - above per cent, to the first digit of what is above; rounded down, as "higher than" is."""
    digits = min(12, max(0, -floor(log10(above)))) if above > 0 else 0
    exact = (100 - above) * 10**digits
    text = f"{(floor(exact + 1e-3) if down else round(exact)) / 10**digits:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"
