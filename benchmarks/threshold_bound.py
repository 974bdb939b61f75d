"""How much recall a promise of precision can keep if the true curve is known: yardsticks for `rankencoder label`.

``one`` spends all answers on random pairs above the best single threshold. The promise "precision at least P"
is made when the exact one-sided test at 90% rejects "precision below P"; pairs are drawn without replacement,
so the test is hypergeometric. ``strata`` draws from each bin of similarity in the proportion that is best for
the true curve (Neyman, 1934), tests the weighted mean, and falls back on higher thresholds, each with all
answers for itself. No real design knows the curve; one that assumes a smooth curve may still do better, since
answers in one bin then tell something about its neighbors. Figures are shares of the oracle's recall. Needs
the cosines of ``threshold_scores.py``::

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


def power(pairs: np.ndarray, same: np.ndarray, precision: float, answers: int) -> np.ndarray:
    """Return how often the test rejects "precision too low", by the numbers of pairs above each threshold.

    >>> power(np.array([100, 10_000]), np.array([90, 9_000]), 0.8, 120).round(2)
    array([1.  , 0.95])
    """
    drawn = np.minimum(answers, pairs)
    too_few = (
        np.ceil(precision * pairs - 1e-9) - 1
    )  # the largest number of same pairs that breaks the promise
    needed = hypergeom.isf(DOUBT, pairs, too_few, drawn) + 1
    return np.asarray(hypergeom.sf(needed - 1, pairs, same, drawn))


def strata_power(pairs: np.ndarray, same: np.ndarray, precision: float, answers: int) -> float:
    """Return how often a stratified sample of these bins shows that their precision is high enough.

    >>> round(strata_power(np.array([5_000, 5_000]), np.array([3_500, 5_000]), 0.8, 120), 2)
    0.87
    """
    share, p = pairs / pairs.sum(), same / np.maximum(pairs, 1)
    spread = share * np.sqrt(p * (1 - p))
    drawn = np.clip(answers * spread / max(spread.sum(), 1e-12), 1e-9, np.maximum(pairs, 1e-9))
    variance = (spread**2 / drawn * (1 - drawn / np.maximum(pairs, drawn))).sum()
    gap = share @ p - precision
    return float(norm.cdf(gap / max(np.sqrt(variance), 1e-12) + norm.ppf(DOUBT)))


def bound(similarities: np.ndarray, same: np.ndarray, precision: float, answers: int) -> dict[str, float]:
    """Return the recall that either design can promise, as shares of the oracle's."""
    edges, places = cut_bins(similarities)
    precisions, recalls = truth(similarities, same, edges[:-1])
    reached = np.flatnonzero(precisions >= precision)
    oracle = float(recalls[reached[0]]) if len(reached) else 0.0
    pairs, yes = np.bincount(places, minlength=BINS), np.bincount(places, same, BINS)
    above = np.cumsum(pairs[::-1])[::-1]
    is_kept = np.arange(BINS) >= (reached[0] if len(reached) else BINS)
    one = power(above, np.rint(precisions * above), precision, answers) * is_kept
    strata = [strata_power(pairs[at:], yes[at:], precision, answers) if is_kept[at] else 0 for at in range(BINS)]
    # whoever promises a threshold promises all above it: the chance of a lower one is never larger
    steps = recalls - np.append(recalls[1:], 0)
    found = {"one": (one * recalls).max(), "strata": np.maximum.accumulate(strata) @ steps}
    return {"oracle": oracle, **{key: float(value / max(oracle, 1e-12)) for key, value in found.items()}}


def main() -> None:
    """Bound all cells of the study."""
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
            cells.append({"encoder": encoder, "set": name, "target": target, "looks": looks})
    rounded = json.loads(json.dumps(cells), parse_float=lambda text: round(float(text), 4))
    lines = ",\n".join(json.dumps(cell) for cell in rounded)
    args.output.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
