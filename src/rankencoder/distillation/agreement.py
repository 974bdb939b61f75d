"""Measure a student without labels: agreement with its teachers, speed and size."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rankencoder.evaluation.statistics import spearman

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder

NEIGHBORS = 10
_SHARE, _MOST, _FEW = 0.05, 2000, 50  # held out: a share of the text, within bounds
_TIMED = 256  # sentences that a speed is measured on
_SECONDS = 1.0  # that a speed is measured for, at least


def held_out_rows(number: int, seed: int) -> np.ndarray:
    """Return the rows that no student is taught: 5% of the sentences, at least 50 of many, at most 2,000.

    >>> [len(held_out_rows(n, seed=1)) for n in (10, 400, 20_000, 1_000_000)]
    [2, 50, 1000, 2000]
    """
    wanted = max(int(_SHARE * number), min(_FEW, number // 4))
    chosen = np.random.default_rng(seed).permutation(number)[: min(wanted, _MOST)]
    return np.sort(chosen)


@dataclass(frozen=True)
class Agreement:
    """How near a student's similarities are to those of its teachers.

    :param spearman: Rank correlation over all pairs of the held-out sentences.
    :param recall: Share of each sentence's 10 nearest neighbors by the teachers that are among its 10
        nearest by the student.
    """

    spearman: float
    recall: float

    def record(self) -> dict[str, float]:
        """Return the figures for a record."""
        return {name: round(value, 6) for name, value in asdict(self).items()}


def measure_agreement(student: np.ndarray, targets: np.ndarray) -> Agreement:
    """Compare a student's cosines with the teachers' similarities of the same sentences.

    :param student: Its unit vectors, ``[n, dimension]``.
    :param targets: The teachers' similarities, ``[n, n]``.
    """
    cosines = student @ student.T
    return Agreement(upper_spearman(cosines, targets), neighbor_recall(cosines, targets))


def upper_spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's correlation of two similarity matrices, each pair counted once."""
    pairs = np.triu_indices(len(a), k=1)
    return spearman(b[pairs], a[pairs])


def gain_noise(before: np.ndarray, after: np.ndarray, targets: np.ndarray) -> float:
    """Return how far two students' agreement with the targets (Spearman) differs by chance.

    1.96 standard errors of the difference, the sentences being a sample. Each pair moves a correlation by
    z·t − r/2·(z² + t²), with standardized ranks z and t; to first order the variance is 4/n that of the mean
    move of each sentence's pairs (Hoeffding, 1948).

    :param before: The unit vectors of one student, ``[n, dimension]``; ``after`` those of the other.
    """
    wanted = _standard_ranks(targets)
    moves = np.zeros_like(targets, dtype=np.float64)
    for vectors, sign in ((after, 1), (before, -1)):
        own = _standard_ranks(vectors @ vectors.T)
        correlation = (own * wanted).sum() / (own * own).sum()
        moves += sign * (own * wanted - correlation / 2 * (own**2 + wanted**2))
    number = len(targets)
    return float(1.96 * 2 / np.sqrt(number) * (moves.sum(axis=1) / (number - 1)).std())


def _standard_ranks(matrix: np.ndarray) -> np.ndarray:
    """Return a similarity matrix as ranks of its pairs, with mean 0 and variance 1; the diagonal is 0."""
    from scipy.stats import rankdata, zscore

    pairs = np.triu_indices(len(matrix), k=1)
    ranks = np.zeros(matrix.shape)
    ranks[pairs] = zscore(rankdata(matrix[pairs]))
    return ranks + ranks.T


def neighbor_recall(found: np.ndarray, wanted: np.ndarray, k: int = NEIGHBORS) -> float:
    """Return the share of each row's k largest entries, the diagonal aside, that both matrices have.

    >>> a = np.array([[9.0, 3, 2, 1], [3, 9, 2, 1], [1, 3, 9, 2], [1, 2, 3, 9]])
    >>> neighbor_recall(a, a.T, k=1)
    0.75
    """
    k = min(k, len(found) - 1)
    near, right = (_nearest(matrix, k) for matrix in (found, wanted))
    return float(np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(near, right, strict=True)]))


def _nearest(matrix: np.ndarray, k: int) -> np.ndarray:
    others = torch.from_numpy(np.ascontiguousarray(matrix)).clone().fill_diagonal_(-torch.inf)
    return others.topk(k, dim=1).indices.numpy()


def measure_speed(encoder: Encoder, sentences: Sequence[str]) -> float:
    """Return how many sentences an encoder encodes in a second, of the first 256."""
    sentences = sentences[:_TIMED]
    encoder(sentences[:8])
    began, done = time.perf_counter(), 0
    while (seconds := time.perf_counter() - began) < _SECONDS:
        encoder(sentences).cpu()
        done += len(sentences)
    return round(done / seconds, 1)


def megabytes(model: Any) -> float:
    """Return the size of a model's weights."""
    return float(sum(p.numel() * p.element_size() for p in model.parameters()) / 1e6)


@dataclass(frozen=True)
class Dissent:
    """A teacher that sees similarities otherwise than the rest do, and what leaving it out would do."""

    teacher: int
    agreement: float  # with the mean of the others
    others: float  # mean agreement of each other teacher with the rest
    without: float  # the same if it was left out

    def record(self) -> dict[str, float]:
        """Return the figures for a record."""
        return asdict(self)


def find_dissent(standardized: Sequence[np.ndarray], gain: float = 0.02) -> Dissent | None:
    """Return the teacher without which the others agree more, if that is by more than ``gain``.

    :param standardized: Each teacher's z-scores of the same pairs. Two can only disagree with each other.
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
