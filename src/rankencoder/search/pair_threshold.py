"""Thresholds: the similarity at which two sentences count as a pair."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.search.calibration import Calibration

_CHANCE = 1e-6  # of an unrelated pair to be above the default
_HIGHEST = 1 - 1e-6  # equal vectors reach it, however their similarity is rounded


def similarity_at(threshold: str | float, calibration: Calibration) -> float:
    """Return the similarity that a threshold means (see `find_duplicates`)."""
    number, percent = parse_threshold(threshold)
    return min(calibration.similarity_at(number) if percent else number, _HIGHEST)


def default_similarity(calibration: Calibration, share: float) -> float:
    """Return the similarity that one in a million unrelated pairs would reach, or a higher one.

    The most similar random pairs of a corpus are its duplicates. So a normal distribution is fitted to those
    below, and extrapolated: from 90% to 99.9%, or where five duplicates a sentence would begin.

    :param share: Of all pairs, how many to find at most.
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
    """Return the lowest similarity that has a precision by the labels of a model or index.

    :raises InputError: If it has no labels, or they promise no such precision.
    """
    from rankencoder.labels.fitted_curve import find_curve  # needs torch, which other thresholds do not

    curve = owner.curve if hasattr(owner, "curve") else find_curve(owner)
    if curve is None:
        raise InputError(
            "`precision` needs labels: label pairs for this model, and fit a threshold to them first"
        )
    at = curve.for_precision(precision)
    if at is None:
        best = curve.describe(curve.most_precise())
        raise InputError(f"no threshold has precision {precision:g}, 90% sure; the best: from {best}")
    return float(curve.thresholds[at])


def parse_threshold(threshold: str | float) -> tuple[float, bool]:
    """Return a threshold's number, and whether it is a percentile of random pairs.

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
