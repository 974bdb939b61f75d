"""The logistic regression of SentEval, as many of them at once as there are folds and weights of L2.

Each is a linear layer trained with Adam until its accuracy on held-out rows has failed to rise often enough.
All start from the same seed, so classifiers with equally many rows see them in the same order. Those that
differ in nothing but L2 therefore share every batch, and folds of equal size become one batched product. What
is kept of each is what it would be alone, but for the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import linear, one_hot

from rankencoder.errors import InputError

L2_WEIGHTS = (1e-5, 1e-4, 1e-3, 1e-2)  # that the protocol chooses from
_HELD_OUT = 0.05  # share of the rows of a fold that comes without held-out rows
_THREADS = 2  # more wait for Python's lock: on 16 cores CR took 13 s with 2, 19 s with 4, 41 s with 16
# of the sentence vectors in a step: what fits into the cache of a core, and what keeps a GPU busy
_BATCH_BYTES = {"cpu": 2**20, "cuda": 2**28}
_SCORED = 256  # held-out rows of each fold that are scored at once


@dataclass(frozen=True)
class Training:
    """How a classifier is trained: by default as for SentEval's published figures.

    :param passes: Passes over the rows in a round. After each round the held-out rows are scored.
    :param tenacity: Rounds without a new best score that are forgiven, in all and not in a row.
    :param max_passes: No round is begun after more passes than that.
    """

    batch_size: int = 64
    passes: int = 4
    tenacity: int = 5
    max_passes: int = 200


FULL = Training()


class Fold(NamedTuple):
    """Rows to train on, and rows that say when to stop; without these, 5 % of the former are set aside."""

    train: np.ndarray
    held_out: np.ndarray | None = None


@dataclass(frozen=True)
class Classifiers:
    """Trained classifiers, one for each fold and each of its weights of L2.

    :param weights: ``[folds, choices, classes, dimension]``; the others have the first axes of it.
    :param accuracy: The best share of right answers on the held-out rows.
    """

    weights: torch.Tensor
    biases: torch.Tensor
    accuracy: np.ndarray
    rounds: np.ndarray

    def predict(self, features: torch.Tensor, fold: int, choice: int = 0) -> np.ndarray:
        """Return the class that a classifier gives to each row, whatever device it is on."""
        weights, biases = self.weights[fold, choice], self.biases[fold, choice]
        logits = linear(features.to(weights), weights, biases)
        return np.asarray(logits.argmax(dim=1).cpu().numpy())


def fit_classifiers(
    features: torch.Tensor,
    labels: Sequence[int] | np.ndarray,
    folds: Sequence[Fold],
    l2: Sequence[Sequence[float]] | np.ndarray,
    *,
    classes: int,
    training: Training = FULL,
    seed: int = 1111,
    finished: Callable[[int], Any] | None = None,
) -> Classifiers:
    """Train logistic regressions with Adam, for all folds and weights of L2 at once.

    :param l2: ``[folds, choices]``, the weights of L2 to train with in each fold.
    :param seed: Of the first weights, of the rows that are set aside, and of the order of rows.
    :param finished: Is told how many folds have just been finished.
    """
    decay = torch.as_tensor(np.asarray(l2, dtype=np.float64), dtype=torch.float32, device=features.device)
    rows = torch.cat([features.to(torch.float32), torch.ones_like(features[:, :1])], dim=1)  # for the bias
    truth = torch.as_tensor(np.asarray(labels), dtype=torch.int64, device=features.device)
    first = _first_weights(features.shape[1], classes, seed).to(features.device)
    best = first.expand(*decay.shape, -1, -1).clone()
    accuracy = np.zeros(decay.shape)
    rounds = np.zeros(decay.shape, dtype=np.int64)

    def train(members: list[int]) -> None:
        state = _State([folds[i] for i in members], decay[members], rows, truth, first, training, seed)
        best[members], accuracy[members], rounds[members] = state.run()
        if finished is not None:
            finished(len(members))

    _for_each(train, _groups(folds, rows.shape[1], training, features.device), features.device)
    return Classifiers(best[..., :-1], best[..., -1], accuracy, rounds)


def _first_weights(dimension: int, classes: int, seed: int) -> torch.Tensor:
    """Return the weights that a linear layer starts with after this seed, the bias as last column."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = torch.nn.Linear(dimension, classes)
    return torch.cat([layer.weight, layer.bias[:, None]], dim=1).detach()


def _groups(folds: Sequence[Fold], width: int, training: Training, device: torch.device) -> list[list[int]]:
    """Return groups of folds with equally many rows, small enough for the caches of the device."""
    same: dict[tuple[int, int], list[int]] = {}
    for i, fold in enumerate(folds):
        held_out = -1 if fold.held_out is None else len(fold.held_out)
        same.setdefault((len(fold.train), held_out), []).append(i)
    limit = _BATCH_BYTES.get(device.type, _BATCH_BYTES["cpu"])
    most = max(1, limit // (4 * width * training.batch_size))
    groups = []
    for members in same.values():
        size = ceil(len(members) / ceil(len(members) / most))
        groups += [members[i : i + size] for i in range(0, len(members), size)]
    return sorted(groups, key=len, reverse=True)


def _for_each(work: Callable[[list[int]], None], groups: list[list[int]], device: torch.device) -> None:
    """Do the work for all groups, each on a core of its own: a step is too small to be shared by cores."""
    before = torch.get_num_threads()
    threads = min(_THREADS, before) if device.type == "cpu" else 1
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            try:
                list(pool.map(work, groups))
            except BaseException:  # an interrupt, too, should not wait for all groups
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        torch.set_num_threads(before)


class _Adam:
    """Adam as in torch.optim, for one tensor whose folds may leave."""

    def __init__(self, weights: torch.Tensor) -> None:
        self.mean = torch.zeros_like(weights)
        self.square = torch.zeros_like(weights)
        self.steps = 0

    def step(self, weights: torch.Tensor, gradient: torch.Tensor) -> None:
        self.steps += 1
        self.mean.lerp_(gradient, 0.1)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        scale = self.square.sqrt().div_((1 - 0.999**self.steps) ** 0.5).add_(1e-8)
        weights.addcdiv_(self.mean, scale, value=-0.001 / (1 - 0.9**self.steps))

    def keep(self, folds: torch.Tensor) -> None:
        self.mean, self.square = self.mean[folds], self.square[folds]


class _State:
    """Folds of equal size in training. A fold leaves when all of its classifiers have stopped.

    In the shapes, f are the folds in training, c the classifiers of each, k the classes and d the dimension.
    """

    def __init__(
        self,
        folds: list[Fold],
        l2: torch.Tensor,
        features: torch.Tensor,
        labels: torch.Tensor,
        first: torch.Tensor,
        training: Training,
        seed: int,
    ) -> None:
        self.features, self.labels, self.training = features, labels, training
        self.classes = len(first)
        self.truth = one_hot(labels, self.classes).to(torch.float32)
        self.random = np.random.RandomState(seed)
        self.train, self.held_out = (
            torch.from_numpy(rows).to(features.device) for rows in _rows(folds, self.random)
        )
        self.weights = first.repeat(*l2.shape, 1)  # [f, ck, d]
        self.decay = l2.repeat_interleave(self.classes, dim=1)[..., None]  # [f, ck, 1]
        self.optimiser = _Adam(self.weights)
        self.folds = torch.arange(len(folds), device=features.device)  # those in training
        # what follows is kept for all folds
        self.right = torch.full_like(l2, -1, dtype=torch.int64)
        self.misses = torch.zeros_like(self.right)
        self.rounds = torch.zeros_like(self.right)
        self.best = first.repeat(*l2.shape, 1, 1)

    def run(self) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
        """Return the best weights, their accuracies, and the numbers of rounds."""
        size = self.held_out.shape[1]
        for _ in range(0, self.training.max_passes + 1, self.training.passes):
            for _ in range(self.training.passes):
                self._pass()
            self._score()
            if not self._keep():
                break
        accuracy = self.right.cpu().numpy() / size
        return self.best, accuracy, self.rounds.cpu().numpy()

    def _pass(self) -> None:
        order = torch.from_numpy(self.random.permutation(self.train.shape[1]))
        for rows in self.train[:, order.to(self.train.device)].split(self.training.batch_size, dim=1):
            self._step(rows)

    def _step(self, rows: torch.Tensor) -> None:
        features = self._gather(rows)  # [f, b, d]
        logits = torch.bmm(self.weights, features.transpose(1, 2)).unflatten(1, (-1, self.classes))
        truth = self.truth[rows].transpose(1, 2).unsqueeze(1)  # [f, 1, k, b]
        errors = logits.softmax(dim=2).sub_(truth).div_(rows.shape[1])
        gradient = torch.bmm(errors.flatten(1, 2), features)
        self.optimiser.step(self.weights, gradient.addcmul_(self.weights, self.decay))

    def _gather(self, rows: torch.Tensor) -> torch.Tensor:
        return self.features.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)

    def _score(self) -> None:
        """Score the held-out rows, and take note of weights that are better than before."""
        right = torch.zeros_like(self.right[self.folds])
        for rows in self.held_out.split(_SCORED, dim=1):
            logits = torch.bmm(self.weights, self._gather(rows).transpose(1, 2))
            chosen = logits.unflatten(1, (-1, self.classes)).argmax(dim=2)
            right += (chosen == self.labels[rows][:, None]).sum(dim=2)
        is_training = self.misses[self.folds] <= self.training.tenacity
        better = is_training & (right > self.right[self.folds])
        fold, choice = better.nonzero(as_tuple=True)
        self.right[self.folds[fold], choice] = right[better]
        self.best[self.folds[fold], choice] = self.weights.unflatten(1, (-1, self.classes))[better]
        self.misses[self.folds] += is_training & ~better
        self.rounds[self.folds] += is_training

    def _keep(self) -> bool:
        """Let folds leave whose classifiers have all stopped; return whether any are left."""
        left = (self.misses[self.folds] <= self.training.tenacity).any(dim=1)
        if not left.all():
            self.folds, self.weights, self.decay = self.folds[left], self.weights[left], self.decay[left]
            self.train, self.held_out = self.train[left], self.held_out[left]
            self.optimiser.keep(left)
        return bool(left.any())


def _rows(folds: list[Fold], random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of folds of equal size, to train on and held out."""
    train = np.stack([fold.train for fold in folds])
    held_out = [fold.held_out for fold in folds if fold.held_out is not None]
    if held_out:
        aside = np.stack(held_out)
    else:
        number = int(_HELD_OUT * train.shape[1])
        order = random.permutation(train.shape[1])
        train, aside = train[:, order[number:]], train[:, order[:number]]
    if not train.shape[1] or not aside.shape[1]:
        rows = train.shape[1] + aside.shape[1]
        raise InputError(f"a fold of {rows} rows is too small to train a classifier on: use more data")
    return train, aside
