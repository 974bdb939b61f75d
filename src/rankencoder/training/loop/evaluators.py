"""Score an encoder during training, on dev pairs or without labels, to choose the best weights."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator

from rankencoder.batching import encode_by_length
from rankencoder.errors import InputError, TrainingWarning
from rankencoder.evaluation.halves import WORDS, halved
from rankencoder.evaluation.pair_metrics import YES_NO, joint_name, joint_pairs, metric_for
from rankencoder.io.pairs import read_scored_pairs

SCORE = "sequential_score"  # the key of an evaluator's score
_SENTENCES, _BATCH = 1_000, 32
_FEWEST = 200  # fewer halved sentences give no reliable score


class DevEvaluator(SentenceEvaluator):
    """Mean score over files of pairs: Spearman for graded pairs, average precision for yes/no labels."""

    def __init__(self, files: Sequence[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sets = [(Path(file).stem, read_scored_pairs(file)) for file in files]
        self.metrics = [metric_for([pair.score for pair in pairs]) for _, pairs in self.sets]
        self.metric, self.pairs = joint_name(self.metrics), f"{joint_pairs(self.metrics)} dev pairs"

    def __call__(self, model: Any, *_: Any, **__: Any) -> dict[str, float]:
        """Return the score of each file and their mean; NaN where a score is undefined."""
        scores, logged = [], {}
        for (name, pairs), metric in zip(self.sets, self.metrics, strict=True):
            first, second, gold, weights = map(list, zip(*pairs, strict=True))
            a, b = _encode(model, first, second)
            cosines = (a * b).sum(dim=1).cpu().numpy()
            try:
                scores.append(metric.score(np.array(gold), cosines, np.array(weights)))
            except InputError:  # all cosines are equal
                scores.append(math.nan)
            logged[f"{name}_{'average_precision' if metric is YES_NO else 'spearman_cosine'}"] = scores[-1]
        return {**logged, SCORE: statistics.fmean(scores)}


def make_evaluator(files: Sequence[str]) -> DevEvaluator | None:
    """Return an evaluator of files of scored pairs, if there are any."""
    return DevEvaluator(files) if files else None


class UnlabeledEvaluator(SentenceEvaluator):
    """AUC of matching the two halves of each sentence, which needs no labels."""

    metric = "AUC"

    def __init__(self, sentences: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.halves = halved(sentences)
        self.pairs = f"no scored pairs: the halves of {len(self.halves):,} sentences"

    def __call__(self, model: Any, *_: Any, **__: Any) -> dict[str, float]:
        """Return the score."""
        return {SCORE: halves_auc(*_encode(model, *map(list, zip(*self.halves, strict=True))))}


def unlabeled_evaluator(rows: Dataset) -> UnlabeledEvaluator | None:
    """Return an evaluator that needs no labels; None, with a warning, if too few sentences can be halved."""
    step = max(1, len(rows) // (4 * _SENTENCES))  # some are too short
    long = [text for text in rows[::step]["text"] if len(text.split()) >= WORDS]
    if len(long) >= _FEWEST:
        number = min(_SENTENCES, len(long))
        return UnlabeledEvaluator([long[i * len(long) // number] for i in range(number)])
    message = (
        f"no scored pairs to choose weights by, and fewer than {_FEWEST} sentences of {WORDS} words: keeping "
        "the last weights, which are often not the best; set `dev`"
    )
    warnings.warn(message, TrainingWarning, stacklevel=2)
    return None


def halves_auc(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return how often two halves of one sentence are more similar than halves of two different ones.

    This is the area under the ROC curve; ties count half, NaN cosines not at all.

    :param a: Unit vectors of the first halves.
    :param b: Unit vectors of the second halves; each is compared with the previous first half too.

    >>> halves_auc(torch.eye(3), torch.eye(3)), halves_auc(torch.ones(3, 1), torch.ones(3, 1))
    (1.0, 0.5)
    """
    same, other = (a * b).sum(dim=1), (a * b.roll(-1, 0)).sum(dim=1)
    larger, equal = same[:, None] > other, same[:, None] == other
    return float((larger.float() + equal.float() / 2).mean())


def smoothed(scores: Sequence[float]) -> list[float]:
    """Return the mean of each score and its neighbors.

    >>> smoothed([0.0, 3.0, 0.0, 3.0])
    [1.5, 1.0, 2.0, 1.5]
    """
    return [statistics.fmean(scores[max(0, i - 1) : i + 2]) for i in range(len(scores))]


def _encode(model: Any, first: list[str], second: list[str]) -> tuple[torch.Tensor, ...]:
    """Return the unit vectors of both sides of some pairs."""
    texts = first + second
    found = None if model.default_prompt_name else encode_by_length(model, texts, _BATCH)
    if found is None:
        found = torch.as_tensor(model.encode(texts, batch_size=_BATCH, convert_to_tensor=True))
    return torch.nn.functional.normalize(found.float(), dim=1).tensor_split(2)
