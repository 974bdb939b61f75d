"""Measure a student: agreement with its teachers, speed, size, and its gain on labeled pairs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata, zscore

from rankencoder.encoders import Encoder
from rankencoder.evaluation.pair_metrics import joint_name, metric_for
from rankencoder.evaluation.statistics import mean_gain, spearman
from rankencoder.io.pairs import read_scored_pairs

NEIGHBORS = 10
_SHARE, _MOST, _FEW = 0.05, 2000, 50  # held-out share of the text, and its bounds in sentences
_TIMED = 256  # sentences to measure speed on
_SECONDS = 1.0  # shortest time to measure speed for


def held_out_rows(number: int, seed: int) -> np.ndarray:
    """Return the rows held out from teaching: 5% of the sentences, between 50 (or a quarter) and 2,000.

    >>> [len(held_out_rows(n, seed=1)) for n in (10, 400, 20_000, 1_000_000)]
    [2, 50, 1000, 2000]
    """
    wanted = max(int(_SHARE * number), min(_FEW, number // 4))
    chosen = np.random.default_rng(seed).permutation(number)[: min(wanted, _MOST)]
    return np.sort(chosen)


@dataclass(frozen=True)
class Agreement:
    """How closely a student's similarities match its teachers'.

    :param spearman: Rank correlation over all pairs of held-out sentences.
    :param recall: Mean share of a sentence's 10 nearest neighbors by the teachers that are also among its 10
        nearest by the student.
    """

    spearman: float
    recall: float

    def record(self) -> dict[str, float]:
        """Return the rounded values for the record."""
        return {name: round(value, 6) for name, value in asdict(self).items()}


def measure_agreement(student: np.ndarray, targets: np.ndarray) -> Agreement:
    """Compare a student's cosines with the teachers' similarities of the same sentences.

    :param student: Its unit vectors, ``[n, dimension]``.
    :param targets: The teachers' similarities, ``[n, n]``.
    """
    cosines = student @ student.T
    pairs = np.triu_indices(len(cosines), k=1)
    return Agreement(spearman(targets[pairs], cosines[pairs]), neighbor_recall(cosines, targets))


def gain_noise(before: np.ndarray, after: np.ndarray, targets: np.ndarray) -> float:
    """Return how much two students' agreement with the targets (Spearman) may differ by chance.

    This is 1.96 standard errors of the difference, with sentences as the sample. Each pair contributes
    z·t − r/2·(z² + t²) to a correlation, with standardized ranks z and t; to first order the variance is 4/n
    times that of the mean contribution of each sentence's pairs (Hoeffding, 1948).

    :param before: The unit vectors of one student, ``[n, dimension]``; ``after`` those of the other.
    """
    wanted = _standard_ranks(targets)
    contributions = np.zeros_like(targets, dtype=np.float64)
    for vectors, sign in ((after, 1), (before, -1)):
        own = _standard_ranks(vectors @ vectors.T)
        correlation = (own * wanted).sum() / (own * own).sum()
        contributions += sign * (own * wanted - correlation / 2 * (own**2 + wanted**2))
    number = len(targets)
    return float(1.96 * 2 / np.sqrt(number) * (contributions.sum(axis=1) / (number - 1)).std())


def _standard_ranks(matrix: np.ndarray) -> np.ndarray:
    """Return the ranks of a similarity matrix's pairs with mean 0 and variance 1; the diagonal is 0."""
    pairs = np.triu_indices(len(matrix), k=1)
    ranks = np.zeros(matrix.shape)
    ranks[pairs] = zscore(rankdata(matrix[pairs]))
    return ranks + ranks.T


def neighbor_recall(found: np.ndarray, wanted: np.ndarray, k: int = NEIGHBORS) -> float:
    """Return the mean share of a row's k largest off-diagonal entries that both matrices have in common.

    >>> a = np.array([[9.0, 3, 2, 1], [3, 9, 2, 1], [1, 3, 9, 2], [1, 2, 3, 9]])
    >>> neighbor_recall(a, a.T, k=1)
    0.75
    """
    k = min(k, len(found) - 1)
    nearest = []
    for matrix in (found, wanted):
        others = torch.from_numpy(np.ascontiguousarray(matrix)).clone().fill_diagonal_(-torch.inf)
        nearest.append(others.topk(k, dim=1).indices.numpy())
    return float(np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(*nearest, strict=True)]))


def measure_speed(encoder: Encoder, sentences: Sequence[str]) -> float:
    """Return an encoder's speed in sentences per second, on the first 256."""
    sentences = sentences[:_TIMED]
    encoder(sentences[:8])
    began, done = time.perf_counter(), 0
    while (seconds := time.perf_counter() - began) < _SECONDS:
        encoder(sentences).cpu()
        done += len(sentences)
    return round(done / seconds, 1)


def megabytes(model: Any) -> float:
    """Return the size of a model's weights in MB."""
    return float(sum(p.numel() * p.element_size() for p in model.parameters()) / 1e6)


@dataclass(frozen=True)
class Dissent:
    """A teacher that disagrees with the rest, and the effect of leaving it out."""

    teacher: int
    agreement: float  # its agreement with the mean of the others
    others: float  # mean agreement of each other teacher with the rest
    without: float  # the same if this teacher is left out


def find_dissent(standardized: Sequence[np.ndarray], gain: float = 0.02) -> Dissent | None:
    """Return the teacher whose removal raises the others' agreement by more than ``gain``, if any.

    :param standardized: Each teacher's z-scores of the same pairs; None is returned for fewer than three.
    """
    rows = np.stack(standardized)
    if len(rows) < 3:
        return None
    agreement = _leave_one_out(rows)
    worst = int(agreement.argmin())
    rest = np.arange(len(rows)) != worst
    without, others = float(_leave_one_out(rows[rest]).mean()), float(agreement[rest].mean())
    if without - others <= gain:
        return None
    return Dissent(worst, float(agreement[worst]), others, without)


def _leave_one_out(rows: np.ndarray) -> np.ndarray:
    """Return the correlation of each row with the sum of the others."""
    total = rows.sum(axis=0)
    return np.array([spearman(total - row, row) for row in rows])


def measure_gain(files: Sequence[str], before: Encoder, after: Encoder) -> dict[str, Any]:
    """Return the mean score on files of labeled pairs before and after, and the gain with its interval.

    Each file has its own metric: average precision for yes/no labels, else Spearman.
    """
    metrics, sets = [], []
    for pairs in map(read_scored_pairs, files):
        a, b, gold, weights = map(list, zip(*pairs, strict=True))
        metrics.append(metric_for(gold))
        cosines = ((one(a) * one(b)).sum(dim=1).cpu().numpy() for one in (before, after))
        of_pairs = np.array(gold), np.array(weights)
        first, second = (metrics[-1].bootstrap(of_pairs[0], values, of_pairs[1]) for values in cosines)
        sets.append((first, second))
    gain = mean_gain(sets)
    means = [float(np.mean([pair[side].runs.mean() for pair in sets])) for side in (0, 1)]
    return {
        "files": list(files),
        "metric": joint_name(metrics),
        "before": means[0],
        "after": means[1],
        "gain": gain.value,
        "interval": [gain.low, gain.high],
    }
