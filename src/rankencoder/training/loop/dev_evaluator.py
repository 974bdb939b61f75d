"""Score an encoder on dev pairs, to choose the best weights."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    SentenceEvaluator,
    SequentialEvaluator,
)
from sentence_transformers.util import pairwise_cos_sim

from rankencoder.evaluation.pair_metrics import YES_NO, Metric, joint_name, joint_pairs, metric_for
from rankencoder.io.pairs import ScoredPair, read_scored_pairs

_BATCH = 128


class DevEvaluator(SequentialEvaluator):
    """The mean score over files of pairs, each by its own metric.

    :ivar metric: What that score is called; `pairs`, what it is of.
    """

    def __init__(self, evaluators: Sequence[SentenceEvaluator], metrics: Sequence[Metric]) -> None:
        super().__init__(evaluators, main_score_function=statistics.fmean)
        self.metric, self.pairs = joint_name(metrics), f"{joint_pairs(metrics)} dev pairs"


class YesNoEvaluator(SentenceEvaluator):
    """Average precision of the cosine on pairs with yes/no labels; NaN where a cosine is no number.

    sentence-transformers' `BinaryClassificationEvaluator` fails there, and training must go on to tell why.
    """

    def __init__(self, pairs: Sequence[ScoredPair], name: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.a, self.b, self.gold = map(list, zip(*pairs, strict=True))
        self.primary_metric = f"{name}_average_precision"

    def __call__(
        self, model: BaseModel, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the average precision of a model."""
        encode: Any = model.encode
        a, b = (encode(texts, batch_size=_BATCH, convert_to_tensor=True) for texts in (self.a, self.b))
        cosines = pairwise_cos_sim(a, b).float().cpu().numpy()
        return {str(self.primary_metric): YES_NO.score(np.array(self.gold), cosines)}


def make_evaluator(files: list[str]) -> DevEvaluator | None:
    """Return an evaluator of files of pairs, if there are any, whose score is the mean over them.

    Scored pairs count by Spearman's correlation, yes/no labels by average precision.
    """
    read = {file: read_scored_pairs(file) for file in files}
    metrics = [metric_for([pair.score for pair in pairs]) for pairs in read.values()]
    evaluators = [
        YesNoEvaluator(pairs, Path(file).stem) if metric is YES_NO else _graded(pairs, Path(file).stem)
        for (file, pairs), metric in zip(read.items(), metrics, strict=True)
    ]
    return DevEvaluator(evaluators, metrics) if files else None


def _graded(pairs: Sequence[ScoredPair], name: str) -> EmbeddingSimilarityEvaluator:
    a, b, scores = map(list, zip(*pairs, strict=True))
    return EmbeddingSimilarityEvaluator(
        a, b, scores, similarity_fn_names=["cosine"], batch_size=_BATCH, name=name, write_csv=False
    )
