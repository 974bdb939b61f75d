"""How well a linear classifier does on vectors of sentences: the transfer tasks, by SentEval's protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from tqdm.auto import tqdm

from rankencoder.encoder_sources import check_device
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.evaluation.classifier import L2_WEIGHTS, Classifiers, Fold, fit_classifiers
from rankencoder.evaluation.transfer_data import TransferTask

_FOLDS = 10

Encode = Callable[[list[str]], Any]  # from sentences to raw vectors, just as the encoder gives them


def score_transfer(
    task: TransferTask,
    encode: Encode,
    *,
    seed: int = 1111,
    device: str | torch.device | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Return the accuracy of a logistic regression on the vectors of a task's sentences.

    MR, CR, SUBJ and MPQA: in each of ten folds, ten folds of the rest choose the weight of L2, and a
    classifier trained on the rest is tested; the accuracies are averaged. TREC and MRPC: ten folds of the
    training split choose the weight. SST-2: the dev split chooses it. What is seen of a pair (MRPC) are the
    absolute differences and the products of the two vectors' numbers.

    :param encode: Called once, with the distinct sentences of the task. The vectors are used as they are.
    :param seed: Of folds and classifiers; published figures have 1111.
    :param device: Where to train the classifiers; by default the processor, each core at folds of its own.
    :return: ``accuracy`` in per cent, ``dev_accuracy`` on held-out rows, ``f1`` (MRPC), and for each tested
        fold the chosen weight in ``l2`` and the accuracy in ``folds``; ``n`` rows of each split.
    """
    if device is not None:
        check_device(str(device))
    rows = _features(task, encode, torch.device(device or "cpu"))
    labels = {name: np.array(split.labels) for name, split in task.splits.items()}
    with tqdm(desc=task.name, unit=" folds", disable=not progress) as bar:
        protocol = _Protocol(task, seed, bar)
        if "all" in task.splits:
            result = protocol.nested(rows["all"], labels["all"])
        elif "dev" in task.splits:
            result = protocol.by_dev(rows, labels)
        else:
            result = protocol.by_folds(rows, labels)
    return {
        "task": task.name,
        **result,
        "n": {name: len(split) for name, split in labels.items()},
        "seed": seed,
    }


@dataclass(frozen=True)
class _Protocol:
    """One way to choose the weight of L2 for each kind of splits."""

    task: TransferTask
    seed: int
    bar: tqdm[Any]

    def nested(self, rows: torch.Tensor, labels: np.ndarray) -> dict[str, Any]:
        self.bar.total = _FOLDS * (_FOLDS + 1)
        outer = self._split(labels)
        inner = [
            Fold(train[fit], train[aside]) for train, _ in outer for fit, aside in self._split(labels[train])
        ]
        found = self._fit(rows, labels, inner).accuracy
        chosen = [_choose(accuracy) for accuracy in found.reshape(len(outer), _FOLDS, -1)]
        refits = [Fold(train) for train, _ in outer]
        fitted = self._fit(rows, labels, refits, [[l2] for l2, _ in chosen])
        tested = []
        for i, (_, test) in enumerate(outer):
            predicted = fitted.predict(rows[torch.from_numpy(test).to(rows.device)], i)
            tested.append(_per_cent(predicted == labels[test]))
        return {
            "accuracy": round(float(np.mean(tested)), 2),
            "dev_accuracy": round(float(np.mean([accuracy for _, accuracy in chosen])), 2),
            "l2": [l2 for l2, _ in chosen],
            "folds": tested,
        }

    def by_folds(self, rows: Mapping[str, torch.Tensor], labels: Mapping[str, np.ndarray]) -> dict[str, Any]:
        self.bar.total = _FOLDS + 1
        train = labels["train"]
        folds = [Fold(fit, aside) for fit, aside in self._split(train)]
        l2, accuracy = _choose(self._fit(rows["train"], train, folds).accuracy)
        fitted = self._fit(rows["train"], train, [Fold(np.arange(len(train)))], [[l2]])
        return self._tested(fitted.predict(rows["test"], 0), labels["test"], l2, accuracy)

    def by_dev(self, rows: Mapping[str, torch.Tensor], labels: Mapping[str, np.ndarray]) -> dict[str, Any]:
        self.bar.total = 1
        size = len(labels["train"])
        fold = Fold(np.arange(size), size + np.arange(len(labels["dev"])))
        both = torch.cat([rows["train"], rows["dev"]])
        fitted = self._fit(both, np.concatenate([labels["train"], labels["dev"]]), [fold])
        l2, accuracy = _choose(fitted.accuracy)
        # another fit with the same seed would be the same
        predicted = fitted.predict(rows["test"], 0, L2_WEIGHTS.index(l2))
        return self._tested(predicted, labels["test"], l2, accuracy)

    def _tested(self, predicted: np.ndarray, truth: np.ndarray, l2: float, dev: float) -> dict[str, Any]:
        accuracy = _per_cent(predicted == truth)
        result: dict[str, Any] = {"accuracy": accuracy, "dev_accuracy": dev}
        if self.task.name == "MRPC":
            result["f1"] = round(100 * float(f1_score(truth, predicted)), 2)
        return {**result, "l2": [l2], "folds": [accuracy]}

    def _split(self, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the rows of the training and of the held-out part of each fold."""
        counts = np.bincount(labels, minlength=self.task.classes)
        if counts.min() < _FOLDS:
            raise InputError(
                f"{self.task.name}: class {counts.argmin()} has {counts.min()} rows, {_FOLDS} folds need more"
            )
        folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=self.seed)
        return list(folds.split(np.zeros((len(labels), 1)), labels))

    def _fit(
        self,
        rows: torch.Tensor,
        labels: np.ndarray,
        folds: list[Fold],
        l2: Sequence[Sequence[float]] | None = None,
    ) -> Classifiers:
        options: dict[str, Any] = {"classes": self.task.classes, "seed": self.seed}
        l2 = l2 or [L2_WEIGHTS] * len(folds)
        return fit_classifiers(rows, labels, folds, l2, finished=self.bar.update, **options)


def _choose(accuracy: np.ndarray) -> tuple[float, float]:
    """Return the weight of L2 with the best mean over folds, and this mean; the first of equals."""
    means = [round(100 * float(mean), 2) for mean in accuracy.mean(axis=0)]
    best = int(np.argmax(means))
    return L2_WEIGHTS[best], means[best]


def _per_cent(right: np.ndarray) -> float:
    return round(100 * float(right.mean()), 2)


def _features(task: TransferTask, encode: Encode, device: torch.device) -> dict[str, torch.Tensor]:
    """Return what the classifiers see of each split."""
    vectors = Encoder(encode, batch_size=len(task.sentences)).raw(task.sentences).to(device)
    number = {sentence: i for i, sentence in enumerate(task.sentences)}

    def of(sentences: tuple[str, ...]) -> torch.Tensor:
        return vectors[torch.tensor([number[sentence] for sentence in sentences], device=device)]

    rows = {}
    for name, split in task.splits.items():
        u = of(split.first)
        if split.second:
            v = of(split.second)
            u = torch.cat([(u - v).abs(), u * v], dim=1)
        rows[name] = u
    return rows
