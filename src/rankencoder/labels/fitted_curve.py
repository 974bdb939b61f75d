"""Threshold curves of models: fitted to a file of labels, stored with the model, found again."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankencoder.encoder_sources import encoder_folder, rankencoder_folder, split_prompt
from rankencoder.errors import LabelWarning
from rankencoder.labels.label_answers import answers_of_sample, read_labels
from rankencoder.labels.sitting import Sitting, pool_file
from rankencoder.labels.threshold_curve import ThresholdCurve, make_curve, stored_curve

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder
    from rankencoder.model import RankEncoder


def fit_curve(model: RankEncoder | Encoder, labels: str | Path) -> ThresholdCurve:
    """Return what labeled pairs say about every threshold of a model's similarity.

    :param labels: A file of a sitting, or any pairs with yes/no labels (see `read_scored_pairs`);
        a column "weight" says how many pairs each stands for. Pairs that were drawn for this model have
        narrower intervals, since the similarities of all candidates are known.
    :raises InputError: If there are too few labels, or not both of yes and no.
    """
    path = Path(labels)
    pairs, same, weights = read_labels(path)
    if pool_file(path).exists():
        sitting = Sitting.resume(path)
        for doubt in sitting.doubts():
            warnings.warn(f"{path}: {doubt}; the intervals are wider for it", LabelWarning, stacklevel=2)
        if sitting.pool.model == model.identity():
            return sitting.curve()
        message = f"{path} was drawn for {sitting.pool.name}: the intervals for {model.name} are wider"
        warnings.warn(message, LabelWarning, stacklevel=2)
    a, b = model.encode([pair.a for pair in pairs]), model.encode([pair.b for pair in pairs])
    similarities = (a * b).sum(axis=1, dtype=np.float64)
    answers, populations = answers_of_sample(similarities, same, weights)
    return make_curve(answers, model.identity(), model.name, populations=populations)


def curve_folder(name: str | None) -> Path | None:
    """Return where the curve of a model is stored; None for a model that is in memory or on the hub."""
    if name is None:
        return None
    name = split_prompt(name)[0]
    folder = rankencoder_folder(name) or Path(encoder_folder(name))
    return folder if folder.is_dir() else None


def find_curve(model: RankEncoder | Encoder) -> ThresholdCurve | None:
    """Return the curve that is stored with a model, if there is one for it as it is."""
    folder = curve_folder(model.name)
    return None if folder is None else stored_curve(folder, model.identity)
