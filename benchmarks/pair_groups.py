"""Where rank vectors help: by how similar a pair is, and by how many neighbors it shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rankencoder.evaluation.pair_metrics import GRADED, Metric
from rankencoder.evaluation.sts_data import PairSet
from rankencoder.evaluation.subjects import Subject

# the paper's groups of gold scores, scaled to 0–1; each without its upper end, but for the last
GROUPS = (("dissimilar", 0.0, 0.33), ("intermediate", 0.33, 0.67), ("similar", 0.67, 1.0))

NEIGHBORS = 100
BINS = 10
_FEWEST = 10  # pairs, for a correlation that says anything
_ROWS = 256


def similar_pairs(pair_set: PairSet, systems: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return Spearman's correlation ×100 of each system within each group of gold scores (Table 5)."""
    gold = pair_set.gold
    found: dict[str, Any] = {}
    for (name, low, high), rows in zip(GROUPS, group_rows(pair_set), strict=True):
        scores = {system: _percent(GRADED, gold[rows], values[rows]) for system, values in systems.items()}
        found[name] = {"from": low, "to": high, "pairs": int(rows.sum()), "scores": scores}
    return found


def group_rows(pair_set: PairSet) -> list[np.ndarray]:
    """Return which pairs are in each of the three groups."""
    of_one = scaled(pair_set).round(9)  # 1.65 of 5 is 0.33, and not a little less
    return [(of_one >= start) & ((of_one < end) | (end == 1)) for _, start, end in GROUPS]


def scaled(pair_set: PairSet) -> np.ndarray:
    """Return the gold scores of all pairs, from 0 to 1."""
    low, high = pair_set.scale
    return np.asarray((pair_set.gold - low) / (high - low))


def _percent(metric: Metric, gold: np.ndarray, similarities: np.ndarray) -> float | None:
    """Return a score ×100, or nothing for too few or equal pairs."""
    if len(gold) < _FEWEST or np.ptp(gold) == 0 or np.ptp(similarities) == 0:
        return None
    return 100 * metric.score(gold, similarities)


def shared_neighbors(
    subject: Subject, pair_set: PairSet, cosine: np.ndarray, ranks: np.ndarray
) -> dict[str, Any]:
    """Compare the gain of ranks over cosine with the neighbors that a pair shares (the overlap figure).

    Pairs are put into ten bins of equal width by their cosine. The overlap is that of the two lists of 100
    nearest reference sentences.
    """
    gold, metric = pair_set.gold, pair_set.metric
    overlap = neighbor_overlap(subject, pair_set)
    edges = np.linspace(cosine.min(), cosine.max(), BINS + 1)
    where = np.clip(np.searchsorted(edges, cosine, side="right") - 1, 0, BINS - 1)
    bins = []
    for i in range(BINS):
        rows = where == i
        base, other = (_percent(metric, gold[rows], values[rows]) for values in (cosine, ranks))
        bins.append(
            {
                "from": float(edges[i]),
                "to": float(edges[i + 1]),
                "pairs": int(rows.sum()),
                "overlap": float(overlap[rows].mean()) if rows.any() else None,
                "cosine": base,
                "ranks": other,
                "gain": None if base is None or other is None else other - base,
            }
        )
    full = [(b["overlap"], b["gain"]) for b in bins if b["gain"] is not None]
    x, y = np.array(full).T if full else (np.zeros(0), np.zeros(0))
    defined = len(full) > 2 and np.ptp(x) > 0 and np.ptp(y) > 0
    correlation = float(np.corrcoef(x, y)[0, 1]) if defined else None
    return {"neighbors": NEIGHBORS, "bins": bins, "correlation": correlation}


def neighbor_overlap(subject: Subject, pair_set: PairSet) -> np.ndarray:
    """Return how many of the 100 nearest reference sentences the two sentences of each pair share."""
    assert subject.form is not None
    reference = subject.form.reference
    vectors = subject.encoder([text for pair in pair_set.pairs for text in pair[:2]])
    found = []
    for rows in vectors.split(2 * _ROWS):
        near = (rows @ reference.T).topk(min(NEIGHBORS, len(reference)), dim=1).indices
        marks = torch.zeros(len(rows), len(reference), dtype=torch.bool, device=rows.device)
        marks.scatter_(1, near, True)
        found.append((marks[0::2] & marks[1::2]).sum(dim=1).cpu())
    return np.asarray(torch.cat(found).numpy())
