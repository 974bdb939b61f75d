"""Calibrated similarities, by the share of random pairs below a score; and thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.model import RankEncoder

REFERENCE = "the model's reference corpus"
SENTENCES = 10_000  # maximum number of sentences whose pairs are measured
_BINS = 2**20  # bins of similarities from -1 to 1
_BLOCK = 1024
_PER_DECADE = 30
_ROUNDING = 1e-6  # differences between ways to compute a similarity
_HELD = 50_000_000  # numbers in all reference vectors: those of the exact form are long
_CHANCE = 1e-6  # probability that an unrelated pair is above the default threshold
_HIGHEST = 1 - 1e-6  # equal vectors reach it despite rounding


@dataclass(frozen=True, eq=False)
class Calibration:
    """The distribution of the similarities of random pairs, with a fine upper tail.

    :param similarities: Increasing similarities.
    :param shares: The share of random pairs at or above each of them, decreasing.
    :param highest: The similarity of the most similar random pair.
    :param pairs: The number of pairs: shares below 1/pairs are unknown.
    :param source: A description of the sentences.

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
        """Measure all pairs of some unit vectors."""
        if len(vectors) < 2:
            raise InputError(f"calibration needs at least two sentences, but {source} has {len(vectors)}")
        return cls.of_similarities(pair_similarities(vectors), source)

    @classmethod
    def on_reference(cls, model: RankEncoder) -> Calibration:
        """Measure the pairs of a model's reference corpus."""
        size = max(2, min(SENTENCES, len(model.reference), _HELD // model.dimension))
        base = model.form.reference[:size]  # in random order
        return cls.measure(model.blend(base).cpu().numpy(), REFERENCE)

    @classmethod
    def of_similarities(cls, parts: Iterable[np.ndarray], source: str) -> Calibration:
        """Return the distribution of the similarities of random pairs, given in parts."""
        counts, highest = np.zeros(_BINS, dtype=np.int64), -1.0
        for part in parts:
            highest = max(highest, float(part.max(initial=-1.0)))
            bins = ((part + 1) * (_BINS / 2)).astype(np.int32)
            counts += np.bincount(bins.clip(0, _BINS - 1), minlength=_BINS)
        pairs = int(counts.sum())
        above = counts[::-1].cumsum()[::-1] / pairs  # the share at or above each bin's lower edge
        tail = np.logspace(log10(0.5), -log10(pairs), ceil(log10(pairs) * _PER_DECADE))
        shares = np.concatenate([np.linspace(1, 0.5, 51)[:-1], tail])
        # the highest edge with such a share above it; rounding must not lose the last pair
        edges = np.unique(np.searchsorted(-above, -shares * (1 - 1e-9), side="right") - 1)
        return cls(edges / (_BINS / 2) - 1, above[edges], highest, pairs, source)

    @property
    def finest(self) -> float:
        """The highest percentile that can be measured with so many pairs."""
        return 100 * (1 - 1 / self.pairs)

    def percentile(self, similarity: Any) -> Any:
        """Return the percentage of random pairs below a similarity, at most `finest`."""
        logs = np.interp(similarity, self.similarities, np.log(self.shares), left=0.0)
        return np.where(self.is_above_all(similarity), self.finest, 100 * (1 - np.exp(logs)))[()]

    def is_above_all(self, similarity: Any) -> Any:
        """Return whether a similarity is above those of all random pairs."""
        return np.asarray(similarity) > self.highest + _ROUNDING

    def similarity_at(self, percentile: float) -> float:
        """Return the similarity that is higher than this percentage of random pairs."""
        if not 0 <= percentile < 100:
            raise InputError(f"{percentile:g}% of random pairs: choose at least 0% and less than 100%")
        if percentile > self.finest:
            raise InputError(
                f"{percentile:.10g}% is too fine for {self.pairs:,} random pairs of {self.source}: choose at "
                f"most {_percent(100 / self.pairs)}, or a similarity such as 0.9"
            )
        logs = np.log(self.shares)
        return float(np.interp(-np.log(1 - percentile / 100), -logs, self.similarities))

    def percent(self, similarity: float) -> str:
        """Return the percentile as text such as "99.97%", with as many digits as necessary."""
        if self.is_above_all(similarity):
            return f">{_percent(100 / self.pairs, down=False)}"
        return _percent(100 - float(self.percentile(similarity)))

    def describe(self, similarity: float) -> str:
        """Describe a similarity by its percentile."""
        if self.is_above_all(similarity):
            return f"higher than all {self.pairs:,} random pairs"
        return f"higher than {self.percent(similarity)} of random pairs"

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {
            "pairs": self.pairs,
            "source": self.source,
            "similarities": self.similarities.round(7).tolist(),
            "shares": [float(f"{share:.9g}") for share in self.shares],
            "highest": self.highest,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], path: Path) -> Calibration:
        """Read the dictionary that `to_dict` made, from a file."""
        try:
            similarities, shares = np.array([stored["similarities"], stored["shares"]], dtype=np.float64)
            highest, pairs, source = float(stored["highest"]), int(stored["pairs"]), str(stored["source"])
            finite = np.isfinite([*similarities, *shares, highest]).all() and pairs > 0
            in_order = (np.diff(similarities) >= 0).all() and (np.diff(shares) <= 0).all()
            if not (finite and in_order and 0 < shares[-1] <= shares[0] <= 1):
                raise ValueError("not a distribution")
        except (KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
            raise InputError(f"{path} is damaged ({error}): delete it to measure again") from error
        return cls(similarities, shares, highest, pairs, source)


def pair_similarities(vectors: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the similarities of all pairs of some unit vectors in parts, in a fixed order."""
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK] @ vectors[start:].T
        yield block[np.triu(np.ones(block.shape, dtype=bool), k=1)]


def _percent(above: float, *, down: bool = True) -> str:
    """Format 100 - above as a percentage, to the first digit of ``above``; by default rounded down."""
    digits = min(12, max(0, -floor(log10(above)))) if above > 0 else 0
    exact = (100 - above) * 10**digits
    text = f"{(floor(exact + 1e-3) if down else round(exact)) / 10**digits:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"


def similarity_at(threshold: str | float, calibration: Calibration) -> float:
    """Return a threshold as a similarity (see `find_duplicates`)."""
    number, percent = parse_threshold(threshold)
    return min(calibration.similarity_at(number) if percent else number, _HIGHEST)


def default_similarity(calibration: Calibration, share: float) -> float:
    """Return the similarity that one in a million unrelated pairs would reach, or a higher one.

    The most similar random pairs of a corpus are its duplicates. So a normal distribution is fitted to less
    similar ones, from 90% to 99.9% or to where five duplicates per sentence would begin, and extrapolated.

    :param share: The largest share of pairs to find.
    """
    if calibration.pairs < 100:  # too few for a fit
        return min(calibration.highest, _HIGHEST)
    normal, size = NormalDist(), (2 * calibration.pairs) ** 0.5
    scores = np.linspace(normal.inv_cdf(0.9), normal.inv_cdf(min(max(0.95, 1 - 5 / size), 0.999)), 50)
    similarities = [calibration.similarity_at(100 * normal.cdf(score)) for score in scores]
    slope, middle = np.polyfit(scores, similarities, 1)
    crowded = calibration.similarity_at(min(100 - 100 * share, calibration.finest))
    return min(max(float(middle - slope * normal.inv_cdf(_CHANCE)), crowded), _HIGHEST)


def precise_threshold(owner: Any, precision: float) -> float:
    """Return the lowest threshold with a precision, by the labels of a model or index.

    :raises InputError: If there are no labels, or no threshold has that precision.
    """
    from rankencoder.labels.fitted_curve import find_curve  # needs torch, which other thresholds do not

    curve = owner.curve if hasattr(owner, "curve") else find_curve(owner)
    if curve is None:
        raise InputError("`precision` needs labels: label pairs for this model and fit a threshold first")
    at = curve.for_precision(precision)
    if at is None:
        best = curve.describe(curve.most_precise())
        raise InputError(f"no threshold has precision {precision:g}, 90% sure; the best: from {best}")
    return float(curve.thresholds[at])


def parse_threshold(threshold: str | float) -> tuple[float, bool]:
    """Return a threshold's number and whether it is a percentile of random pairs.

    >>> parse_threshold("99.9%"), parse_threshold("0.8"), parse_threshold(0.8)
    ((99.9, True), (0.8, False), (0.8, False))
    """
    text = str(threshold).strip()
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = float("nan")
    if not (0 <= number < 100 if percent else -1 <= number <= 1):
        raise InputError(
            f"threshold {text!r} is neither a similarity (0.9) nor a share of random pairs (99.99%)"
        )
    return number, percent
