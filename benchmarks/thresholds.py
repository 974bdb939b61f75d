"""How true the intervals and promises of `rankencoder threshold` are: sittings with simulated labelers.

Each set of labeled pairs is a corpus of pairs whose labels are hidden; a labeller answers by them. Needs the
cosines of ``threshold_scores.py``::

    python benchmarks/thresholds.py experiments-work/threshold-scores -o results/thresholds --runs 200
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threshold_scores import ENCODERS, SETS

from rankencoder.io.storage import new_file
from rankencoder.labels.pair_pool import PairPool
from rankencoder.labels.same_posterior import Answers, bin_chances
from rankencoder.labels.threshold_curve import ThresholdCurve, draw_error_rates, make_curve

LOOKS = (60, 120, 240)
TARGETS = (0.8, 0.9)
WAYS = {"chosen": (True, 0.0), "chosen, 5% wrong": (True, 0.05), "random": (False, 0.0)}
"""Ways to sit: whether questions are chosen, and the share of wrong answers."""

COMPARED = ("minilm", "mpnet")
"""Encoders with which other ways than that of `label` are tried."""

_BATCH = 5  # questions between fits, twice as many after 60; a real sitting fits after each
_RECALLS = (0.2, 0.5, 0.8)  # of the fixed thresholds
_CHECKS = 15  # answers between checks


def read_cell(folder: Path, encoder: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return similarities and labels of one encoder on one set."""
    stored = np.load(folder / f"{encoder}.npz")
    return stored[f"cosines{number}"].astype(np.float64), stored[f"labels{number}"]


def sit(
    similarities: np.ndarray, same: np.ndarray, precision: float, way: str, seed: int
) -> Iterator[tuple[int, ThresholdCurve]]:
    """Simulate one sitting, and yield the curve after each number of `LOOKS`."""
    chosen, wrong = WAYS[way]
    rng = np.random.default_rng(seed)
    pairs = [(str(i), "") for i in range(len(same))]
    about: dict[str, Any] = {"model": "", "name": "", "obvious": []}
    pool = PairPool.of_similarities(pairs, similarities, per_bin=len(same), seed=seed, **about)
    order = [[int(one.a) for one in row] for row in pool.bins]
    answers = Answers(pool.edges, pool.population, *np.zeros((2, len(order))))
    random: Iterator[int] = iter(
        rng.permutation(np.concatenate([np.full(len(row), i) for i, row in enumerate(order)]))
    )
    errors = 0
    while (number := int(answers.asked.sum())) < LOOKS[-1]:
        if chosen:
            chances = bin_chances(answers, answers.population - answers.asked, precision)
            bins = rng.choice(
                len(order), size=1 if number < 20 else _BATCH * (1 + (number >= LOOKS[0])), p=chances
            )
        else:
            bins = np.array([next(random) for _ in range(_BATCH)])
        for one in bins:
            place = int(answers.asked[one])
            if place < len(order[one]):
                answers.asked[one] += 1
                answers.yes[one] += same[order[one][place]] ^ (rng.random() < wrong)
                errors += int(number % _CHECKS == 0 and rng.random() < wrong)
                number += 1
                if number in LOOKS:
                    rates = draw_error_rates(errors, number // _CHECKS * 3 // 2)
                    yield number, make_curve(answers, "", "", error_rates=rates, seed=seed)


def truth(
    similarities: np.ndarray, same: np.ndarray, thresholds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the true precision and recall at each threshold."""
    order = np.sort(similarities)
    above = len(order) - np.searchsorted(order, thresholds)
    same_above = same.sum() - np.searchsorted(np.sort(similarities[same]), thresholds)
    return same_above / np.maximum(above, 1), same_above / max(same.sum(), 1)


def run_cell(folder: Path, encoder: str, number: int, target: float, way: str, runs: int) -> dict[str, Any]:
    """Return what came of many sittings, each as a row of figures."""
    similarities, same = read_cell(folder, encoder, number)
    rows: dict[str, list[Any]] = {str(look): [] for look in LOOKS}
    for seed in range(runs):
        for look, curve in sit(similarities, same, target, way, seed):
            precision, recall = truth(similarities, same, curve.thresholds)
            fixed = [int(np.abs(recall - level).argmin()) for level in _RECALLS]
            reached = np.flatnonzero(precision >= target)
            oracle = int(reached[0]) if len(reached) else -1
            at = curve.for_precision(target)
            spot = oracle if oracle >= 0 else int(precision.argmax())
            rows[str(look)].append(
                {
                    "covered_precision": [_covers(curve.precision, i, precision) for i in fixed],
                    "covered_recall": [_covers(curve.recall, i, recall) for i in fixed],
                    "covered_chosen": None if at is None else _covers(curve.precision, at, precision),
                    "width": [float(b.high[spot] - b.low[spot]) for b in (curve.precision, curve.recall)],
                    "made": at is not None,
                    "broken": at is not None and bool(precision[at] < target),
                    "recall": 0.0 if at is None else float(recall[at]),
                    "oracle": float(recall[oracle]) if oracle >= 0 else 0.0,
                }
            )
    key = {"encoder": encoder, "set": list(SETS)[number], "target": target, "way": way, "runs": runs}
    return {**key, "looks": {look: summarize(found) for look, found in rows.items()}}


def _covers(band: Any, at: int, truth: np.ndarray) -> bool:
    return bool(band.low[at] - 1e-9 <= truth[at] <= band.high[at] + 1e-9)


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means over the sittings."""
    chosen = [row["covered_chosen"] for row in rows if row["covered_chosen"] is not None]
    return {
        "covered_precision": np.mean([row["covered_precision"] for row in rows], axis=0).round(4).tolist(),
        "covered_recall": np.mean([row["covered_recall"] for row in rows], axis=0).round(4).tolist(),
        "covered_chosen": round(float(np.mean(chosen)), 4) if chosen else None,
        "width": np.mean([row["width"] for row in rows], axis=0).round(4).tolist(),
        **{
            name: round(float(np.mean([row[name] for row in rows])), 4)
            for name in ("made", "broken", "recall", "oracle")
        },
    }


def main() -> None:
    """Run all cells that are not done yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scores", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--encoders", nargs="*", default=list(ENCODERS))
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(args.processes) as pool:
        waiting = {}
        for encoder, number, target, way in (
            (e, n, t, w) for w, e, n, t in product(args.ways, args.encoders, range(len(SETS)), TARGETS)
        ):
            if way != "chosen" and (target != TARGETS[0] or encoder not in COMPARED):
                continue
            name = f"{encoder}-{number}-{round(100 * target)}-{way.replace(', 5% ', '-')}.json"
            scores = args.scores / f"{encoder}.npz"
            if not (args.output / name).exists() and scores.exists() and f"labels{number}" in np.load(scores):
                waiting[name] = pool.submit(run_cell, args.scores, encoder, number, target, way, args.runs)
        for name, future in waiting.items():
            with new_file(args.output / name) as path:
                path.write_text(json.dumps(future.result(), indent=1) + "\n", encoding="utf-8")
            print(name, flush=True)


if __name__ == "__main__":
    main()
