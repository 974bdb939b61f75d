"""How much recall any way of labelling can promise: an upper bound for `rankencoder threshold`.

The designer of the test knows the true curve and spends all answers on random pairs above one threshold. The
promise "precision at least P" is made when the exact one-sided test at 90% rejects "precision below P"; pairs
are drawn without replacement, so the test is hypergeometric (binomial where pairs are many). ``one`` is the
best threshold's expected share of the oracle's recall. ``any`` also bounds methods that fall back on a higher
threshold: each threshold gets all answers for itself, and each step of recall counts with the power there.
Needs the cosines of ``threshold_scores.py``::

    python benchmarks/threshold_bound.py experiments-work/threshold-scores -o results/threshold-bound.json
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import hypergeom
from threshold_scores import ENCODERS, SETS
from thresholds import LOOKS, TARGETS, read_cell, truth

from rankencoder.labels.pair_pool import cut_bins

DOUBT = 0.1  # how often a promise may be broken


def power(pairs: np.ndarray, same: np.ndarray, precision: float, answers: int) -> np.ndarray:
    """Return how often the test rejects "precision too low", by the numbers of pairs above each threshold.

    >>> power(np.array([100, 10_000]), np.array([90, 9_000]), 0.8, 120).round(2)
    array([1.  , 0.96])
    """
    drawn = np.minimum(answers, pairs)
    too_few = (
        np.ceil(precision * pairs - 1e-9) - 1
    )  # the largest number of same pairs that breaks the promise
    needed = hypergeom.isf(DOUBT, pairs, too_few, drawn) + 1
    return np.asarray(hypergeom.sf(needed - 1, pairs, same, drawn))


def bound(similarities: np.ndarray, same: np.ndarray, precision: float, answers: int) -> dict[str, float]:
    """Return the recall that one threshold and any method can promise, as shares of the oracle's."""
    thresholds = cut_bins(similarities)[0][:-1]
    precisions, recalls = truth(similarities, same, thresholds)
    reached = np.flatnonzero(precisions >= precision)
    oracle = float(recalls[reached[0]]) if len(reached) else 0.0
    above = np.array([(similarities >= threshold).sum() for threshold in thresholds])
    is_kept = np.arange(len(thresholds)) >= (reached[0] if len(reached) else len(thresholds))
    chance = power(above, np.rint(precisions * above), precision, answers) * is_kept
    # whoever promises a threshold promises all above it: the chance of a lower one is never larger
    steps = recalls - np.append(recalls[1:], 0)
    best = np.maximum.accumulate(chance)
    found = {"one": (chance * recalls).max(), "any": (best * steps).sum()}
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
