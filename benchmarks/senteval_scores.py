"""How well a linear classifier does on vectors of sentences: the transfer tasks, by SentEval's protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from senteval_classifier import L2_WEIGHTS, Classifiers, Fold, fit_classifiers
from senteval_tasks import TransferTask
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from rankencoder.encoders import Encoder

_FOLDS = 10

Encode = Callable[[list[str]], Any]  # from sentences to raw vectors, just as the encoder gives them
Fit = Callable[..., Classifiers]  # from rows, labels, folds and weights of L2


def score_transfer(
    task: TransferTask, encode: Encode, *, seed: int = 1111, device: str | torch.device = "cpu"
) -> dict[str, Any]:
    """Return the accuracy of a logistic regression on the vectors of a task's sentences.

    MR, CR, SUBJ and MPQA: in each of ten folds, ten folds of the rest choose the weight of L2, and a
    classifier trained on the rest is tested; the accuracies are averaged. TREC and MRPC: ten folds of the
    training split choose the weight. SST-2: the dev split chooses it. What is seen of a pair (MRPC) are the
    absolute differences and the products of the two vectors' numbers.

    :param encode: Called once, with the distinct sentences of the task. The vectors are used as they are.
    :param seed: Of folds and classifiers; published figures have 1111.
    :param device: Where to train the classifiers.
    :return: ``accuracy`` in per cent, ``dev_accuracy`` on held-out rows, ``f1`` (MRPC), and for each tested
        fold the chosen weight in ``l2`` and the accuracy in ``folds``; ``n`` rows of each split.
    """
    rows = _features(task, encode, torch.device(device))
    labels = {name: np.array(split.labels) for name, split in task.splits.items()}
    fit = partial(fit_classifiers, classes=task.classes, seed=seed)
    split = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    if "all" in task.splits:
        result = _score_nested(fit, split, rows["all"], labels["all"])
    else:
        result = _score_split(task.name, fit, split, rows, labels)
    sizes = {name: len(found) for name, found in labels.items()}
    return {"task": task.name, **result, "n": sizes, "seed": seed}


def _score_nested(fit: Fit, split: StratifiedKFold, rows: torch.Tensor, labels: np.ndarray) -> dict[str, Any]:
    outer = list(split.split(labels, labels))
    inner = [
        Fold(train[fitted], train[aside])
        for train, _ in outer
        for fitted, aside in split.split(train, labels[train])
    ]
    accuracies = fit(rows, labels, inner, [L2_WEIGHTS] * len(inner)).accuracy
    chosen = [_choose(accuracy) for accuracy in accuracies.reshape(len(outer), len(outer), -1)]
    refits = [Fold(train) for train, _ in outer]
    fitted = fit(rows, labels, refits, [[l2] for l2, _ in chosen])
    tested = []
    for i, (_, test) in enumerate(outer):
        predicted = fitted.predict(rows[torch.from_numpy(test).to(rows.device)], i)
        tested.append(_percent(predicted == labels[test]))
    return {
        "accuracy": round(float(np.mean(tested)), 2),
        "dev_accuracy": round(float(np.mean([accuracy for _, accuracy in chosen])), 2),
        "l2": [l2 for l2, _ in chosen],
        "folds": tested,
    }


def _score_split(
    task: str,
    fit: Fit,
    split: StratifiedKFold,
    rows: Mapping[str, torch.Tensor],
    labels: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    """Choose the weight of L2 on the dev split or, without one, by folds of the training split."""
    seen, truth = rows["train"], labels["train"]
    if "dev" in rows:
        refit = Fold(np.arange(len(truth)), len(truth) + np.arange(len(labels["dev"])))
        folds = [refit]
        seen, truth = torch.cat([seen, rows["dev"]]), np.concatenate([truth, labels["dev"]])
    else:
        refit = Fold(np.arange(len(truth)))
        folds = [Fold(train, aside) for train, aside in split.split(truth, truth)]
    l2, dev_accuracy = _choose(fit(seen, truth, folds, [L2_WEIGHTS] * len(folds)).accuracy)
    predicted = fit(seen, truth, [refit], [[l2]]).predict(rows["test"], 0)
    accuracy = _percent(predicted == labels["test"])
    result = {"accuracy": accuracy, "dev_accuracy": dev_accuracy, "l2": [l2], "folds": [accuracy]}
    if task == "MRPC":
        result["f1"] = round(100 * float(f1_score(labels["test"], predicted)), 2)
    return result


def _choose(accuracy: np.ndarray) -> tuple[float, float]:
    """Return the weight of L2 with the best mean over folds, and this mean; the first of equals."""
    means = [_percent(column) for column in accuracy.T]
    best = int(np.argmax(means))
    return L2_WEIGHTS[best], means[best]


def _percent(shares: np.ndarray) -> float:
    return round(100 * float(shares.mean()), 2)


def _features(task: TransferTask, encode: Encode, device: torch.device) -> dict[str, torch.Tensor]:
    """Return what the classifiers see of each split."""
    vectors = Encoder(encode, batch_size=len(task.sentences)).raw(task.sentences).to(device)
    number = {sentence: i for i, sentence in enumerate(task.sentences)}
    rows = {}
    for name, split in task.splits.items():
        u = vectors[[number[sentence] for sentence in split.first]]
        if split.second:
            v = vectors[[number[sentence] for sentence in split.second]]
            u = torch.cat([(u - v).abs(), u * v], dim=1)
        rows[name] = u
    return rows
