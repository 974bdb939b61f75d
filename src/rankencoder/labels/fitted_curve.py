"""Threshold curves of models: fitted to labeled pairs, stored with the model, found again."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankencoder.encoder_sources import encoder_folder, rankencoder_folder, split_prompt
from rankencoder.errors import InputError, LabelWarning
from rankencoder.io.pairs import ScoredPair, read_scored_pairs
from rankencoder.labels.pair_pool import BINS, cut_bins
from rankencoder.labels.same_posterior import Answers
from rankencoder.labels.sitting import Sitting, pool_file
from rankencoder.labels.threshold_curve import ThresholdCurve, make_curve, stored_curve

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder
    from rankencoder.model import RankEncoder

FEWEST = 20  # answers below which a threshold is meaningless
_DRAWS = 1000


def fit_curve(model: RankEncoder | Encoder, labels: str | Path) -> ThresholdCurve:
    """Fit a threshold curve of a model to labeled pairs.

    :param labels: The file of a labeling session, or any yes/no pairs (see `read_scored_pairs`);
        a column "weight" says how many pairs each stands for. Pairs that were drawn for this model have
        narrower intervals, since the similarities of all candidates are known.
    :raises InputError: If there are too few labels, or only one of yes and no.
    """
    path = Path(labels)
    pairs, same, weights = read_labels(path)
    if pool_file(path).exists():
        sitting = Sitting.resume(path)
        for doubt in sitting.doubts():
            warnings.warn(f"{path}: {doubt}, which widens the intervals", LabelWarning, stacklevel=2)
        if sitting.pool.model == model.identity():
            return sitting.curve()
        message = f"{path} was drawn for {sitting.pool.name}: the intervals for {model.name} are wider"
        warnings.warn(message, LabelWarning, stacklevel=2)
    a, b = model.encode([pair.a for pair in pairs]), model.encode([pair.b for pair in pairs])
    similarities = (a * b).sum(axis=1, dtype=np.float64)
    answers, populations = answers_of_sample(similarities, same, weights)
    return make_curve(answers, model.identity(), model.name, populations=populations)


def read_labels(path: str | Path) -> tuple[list[ScoredPair], np.ndarray, np.ndarray]:
    """Read yes/no labels: the pairs, whether each means the same, and their weights.

    :raises InputError: If there are labels other than yes and no, or too few.
    """
    pairs = read_scored_pairs(path, check=False)
    if len(pairs) < FEWEST:
        raise InputError(f"{path}: {len(pairs)} answers are too few for a threshold: label at least {FEWEST}")
    weights = np.array([pair.weight for pair in pairs])
    scores = np.array([pair.score for pair in pairs])
    number = len(np.unique(scores))
    if number == 1:
        raise InputError(f"{path}: all labels are {scores[0]:g}: a threshold needs both yes and no")
    if number > 2:
        raise InputError(f"{path}: a threshold needs yes/no labels, but there are {number} different scores")
    same = scores == scores.max()
    return pairs, same, weights


def answers_of_sample(
    similarities: np.ndarray, same: np.ndarray, weights: np.ndarray, *, seed: int = 0
) -> tuple[Answers, np.ndarray]:
    """Return answers of a weighted random sample of pairs, and draws of how many pairs are in each bin.

    Pairs of different weights that share a bin count as their effective number, (Σw)²/Σw². The sizes of bins
    are drawn by the Bayesian bootstrap (Rubin, 1981).
    """
    edges, places = cut_bins(similarities)
    weights = weights / weights.max()
    total, squares, yes = (np.bincount(places, w, BINS) for w in (weights, weights**2, weights * same))
    asked = total**2 / np.maximum(squares, 1e-12)
    drawn = np.random.default_rng(seed).exponential(size=(_DRAWS, len(weights))) * weights
    populations = drawn @ (places[:, None] == np.arange(BINS))
    return Answers(edges, total, asked, asked * yes / np.maximum(total, 1e-12)), populations


def curve_folder(name: str | None) -> Path | None:
    """Return where the curve of a model is stored; None for a model that is in memory or on the hub."""
    if name is None:
        return None
    name = split_prompt(name)[0]
    folder = rankencoder_folder(name) or Path(encoder_folder(name))
    return folder if folder.is_dir() else None


def find_curve(model: RankEncoder | Encoder) -> ThresholdCurve | None:
    """Return the curve stored with a model, unless it belongs to another version of the model."""
    folder = curve_folder(model.name)
    return None if folder is None else stored_curve(folder, model.identity)
