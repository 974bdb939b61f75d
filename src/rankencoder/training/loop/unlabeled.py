"""Choose weights without labels, by matching the two halves of each sentence."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator

from rankencoder.errors import TrainingWarning
from rankencoder.evaluation.halves import WORDS, halved

if TYPE_CHECKING:
    from datasets import Dataset

_SENTENCES = 1_000
_FEWEST = 200  # of which the score says something


def halves_auc(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return how often two halves of one sentence are more similar than halves of two different ones.

    It is the area under the ROC curve; ties count half, and cosines that are no numbers not at all.

    :param a: Unit vectors of the first halves.
    :param b: Of the second ones, which are also compared with the first half of the sentence before.

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


class UnlabeledEvaluator(SentenceEvaluator):
    """Scores an encoder on unlabeled sentences, in the place of scored pairs."""

    metric = "AUC"

    def __init__(self, sentences: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.halves = halved(sentences)
        self.pairs = f"no scored pairs: the halves of {len(self.halves):,} sentences"

    def __call__(self, model: Any, output_path: Any = None, epoch: Any = -1, steps: Any = -1) -> Any:
        """Return the score, under the name that the trainer looks for."""
        a, b = (_encode(model, list(side)) for side in zip(*self.halves, strict=True))
        return {"sequential_score": halves_auc(a, b)}


def unlabeled_evaluator(rows: Dataset) -> UnlabeledEvaluator | None:
    """Return an evaluator that needs no labels; None, with a warning, if the sentences do not do for it."""
    step = max(1, len(rows) // (4 * _SENTENCES))  # some are too short
    long = [text for text in rows[::step]["text"] if len(text.split()) >= WORDS]
    if len(long) >= _FEWEST:
        number = min(_SENTENCES, len(long))
        return UnlabeledEvaluator([long[i * len(long) // number] for i in range(number)])
    message = (
        f"there are no scored pairs to choose weights by, nor {_FEWEST} sentences of {WORDS} words: the last "
        "weights are kept, which are often not the best; set `dev`"
    )
    warnings.warn(message, TrainingWarning, stacklevel=2)
    return None


def _encode(model: Any, texts: list[str]) -> torch.Tensor:
    found = model.encode(texts, batch_size=128, convert_to_tensor=True, normalize_embeddings=True)
    return torch.as_tensor(found).float()
