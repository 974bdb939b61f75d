"""Yardsticks of `rankencoder label`: what answers can promise at best, and thresholds without labels.

A promise "precision at least P, 90% sure" that holds for every curve is a test. ``strata`` bounds the recall
of all such promises, of adaptive methods too: it knows the true curve, draws from each bin of similarity what
is best for it (Neyman, 1934), and has all answers for each threshold. Against the least favorable curve of
precision P no test at 90% is more powerful, up to the normal approximation. A method that assumes a smooth
curve, as `label` does, may keep more. ``one`` spends all answers on random pairs above the best single
threshold, with an exact hypergeometric test. Both are shares of the oracle's recall.

``gain`` is how many random pairs of the set are worth one of the best draw, for precision at the oracle's
threshold; ``above`` is the share of pairs there. ``fixed`` is precision and recall of thresholds that people
take without labels. Needs the cosines of ``threshold_scores.py``::

    python benchmarks/threshold_bound.py experiments-work/threshold-scores -o results/threshold-bound.json
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import hypergeom, norm
from threshold_scores import ENCODERS, SETS
from thresholds import LOOKS, TARGETS, read_cell, truth

from rankencoder.labels.pair_pool import BINS, cut_bins

DOUBT = 0.1  # how often a promise may be broken
FIXED = (0.8, 0.9)  # thresholds without labels; 0.9 is the default of semhash 0.5, with potion


def power(pairs: np.ndarray, same: np.ndarray, precision: float, answers: int) -> np.ndarray:
    """Return how often the test rejects "precision too low", by the numbers of pairs above each threshold.

    >>> power(np.array([100, 10_000]), np.array([90, 9_000]), 0.8, 120).round(2)
    array([1.  , 0.95])
    """
    drawn = np.minimum(answers, pairs)
    too_few = np.ceil(precision * pairs - 1e-9) - 1  # the most same pairs that break the promise
    needed = hypergeom.isf(DOUBT, pairs, too_few, drawn) + 1
    return np.asarray(hypergeom.sf(needed - 1, pairs, same, drawn))


def strata_power(pairs: np.ndarray, same: np.ndarray, precision: float, answers: int) -> float:
    """Return how often the best draw from these bins shows that their precision is high enough.

    >>> round(strata_power(np.array([5_000, 5_000]), np.array([3_500, 5_000]), 0.8, 120), 2)
    0.87

    Here only the first bin is in doubt, and the exact test of 0.6 against 0.7 has less power:

    >>> from scipy.stats import binom
    >>> round(float(binom.sf(binom.isf(DOUBT, 120, 0.6), 120, 0.7)), 2)
    0.82
    """
    spread = _spread(pairs, same)
    drawn = np.clip(answers * spread / max(spread.sum(), 1e-12), 1e-9, np.maximum(pairs, 1e-9))
    variance = (spread**2 / drawn * (1 - drawn / np.maximum(pairs, drawn))).sum()
    gap = same.sum() / pairs.sum() - precision
    return float(norm.cdf(gap / max(np.sqrt(variance), 1e-12) + norm.ppf(DOUBT)))


def _spread(pairs: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Return each bin's share of the pairs, times the standard deviation of its labels."""
    p = same / np.maximum(pairs, 1)
    return np.asarray(pairs / pairs.sum() * np.sqrt(p * (1 - p)))


def bound(similarities: np.ndarray, same: np.ndarray, precision: float, answers: int) -> dict[str, float]:
    """Return the recall that can be promised, as shares of the oracle's, and the gain over random pairs."""
    edges, places = cut_bins(similarities)
    precisions, recalls = truth(similarities, same, edges[:-1])
    if not (precisions >= precision).any():
        return {"oracle": 0.0}
    lowest = int(np.argmax(precisions >= precision))
    oracle, p = float(recalls[lowest]), float(precisions[lowest])
    pairs, yes = np.bincount(places, minlength=BINS), np.bincount(places, same, BINS)
    above = np.cumsum(pairs[::-1])[::-1]
    is_kept = np.arange(BINS) >= lowest
    one = power(above, np.rint(precisions * above), precision, answers) * is_kept
    strata = [
        strata_power(pairs[at:], yes[at:], precision, answers) if is_kept[at] else 0 for at in range(BINS)
    ]
    # a promise for a lower threshold is one for all above it, so its chance is never larger
    steps = recalls - np.append(recalls[1:], 0)
    share = above[lowest] / above[0]
    return {
        "oracle": oracle,
        "one": float((one * recalls).max() / oracle),
        "strata": float(np.maximum.accumulate(strata) @ steps / oracle),
        "above": float(share),
        "gain": float(p * (1 - p) / share / max(_spread(pairs[lowest:], yes[lowest:]).sum() ** 2, 1e-12)),
    }


def main() -> None:
    """Measure all cells of the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scores", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    cells: list[dict[str, Any]] = []
    for encoder, (number, name), target in product(ENCODERS, enumerate(SETS), TARGETS):
        file = args.scores / f"{encoder}.npz"
        if file.exists() and f"labels{number}" in np.load(file):
            pairs = read_cell(args.scores, encoder, number)
            looks = {str(look): bound(*pairs, target, look) for look in LOOKS}
            fixed = {f"{at:g}": [float(f[0]) for f in truth(*pairs, np.array([at]))] for at in FIXED}
            cells.append({"encoder": encoder, "set": name, "target": target, "looks": looks, "fixed": fixed})
    rounded = json.loads(json.dumps(cells), parse_float=lambda text: round(float(text), 4))
    lines = ",\n".join(json.dumps(cell) for cell in rounded)
    args.output.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
