"""The logistic regression of SentEval, as many of them at once as there are folds and weights of L2.

Each is a linear layer trained with Adam until its accuracy on held-out rows has failed to rise often enough.
All start from the same seed, so classifiers with equally many rows see them in the same order. Those that
differ in nothing but L2 therefore share every batch, and folds of equal size become one batched product. What
is kept of each is what it would be alone, but for the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import linear, one_hot

L2_WEIGHTS = (1e-5, 1e-4, 1e-3, 1e-2)  # that the protocol chooses from
_BATCH_SIZE = 64
_PASSES = 4  # over the rows in a round; after each round the held-out rows are scored
_TENACITY = 5  # rounds without a new best score that are forgiven, in all and not in a row
_MAX_PASSES = 200  # no round is begun after more passes than that
_HELD_OUT = 0.05  # share of the rows of a fold that comes without held-out rows
_GROUP = 16  # folds in a batched product
_THREADS = 2  # more wait for Python's lock: on 16 cores CR took 13 s with 2, 19 s with 4, 41 s with 16


class Fold(NamedTuple):
    """Rows to train on, and rows that say when to stop; without these, 5 % of the former are set aside."""

    train: np.ndarray
    held_out: np.ndarray | None = None


class Classifiers(NamedTuple):
    """Trained classifiers, one for each fold and each of its weights of L2.

    :param weights: ``[folds, choices, classes, dimension]``; the others have the first axes of it.
    :param accuracy: The best share of right answers on the held-out rows.
    """

    weights: torch.Tensor
    biases: torch.Tensor
    accuracy: np.ndarray
    rounds: np.ndarray

    def predict(self, features: torch.Tensor, fold: int, choice: int = 0) -> np.ndarray:
        """Return the class that a classifier gives to each row."""
        logits = linear(features, self.weights[fold, choice], self.biases[fold, choice])
        return np.asarray(logits.argmax(dim=1).cpu().numpy())


def fit_classifiers(
    features: torch.Tensor,
    labels: np.ndarray,
    folds: Sequence[Fold],
    l2: Sequence[Sequence[float]],
    *,
    classes: int,
    seed: int = 1111,
) -> Classifiers:
    """Train logistic regressions with Adam, for all folds and weights of L2 at once.

    :param l2: ``[folds, choices]``, the weights of L2 to train with in each fold.
    :param seed: Of the first weights, of the rows that are set aside, and of the order of rows.
    """
    decay = torch.tensor(l2, dtype=torch.float32, device=features.device)
    rows = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)  # for the bias
    truth = torch.as_tensor(labels, device=features.device)
    first = _first_weights(features.shape[1], classes, seed).to(features.device)
    best = first.repeat(*decay.shape, 1, 1)
    accuracy = np.zeros(decay.shape)
    rounds = np.zeros(decay.shape, dtype=np.int64)

    def train(members: list[int]) -> None:
        group = _Group([folds[i] for i in members], decay[members], rows, truth, first, seed)
        best[members], accuracy[members], rounds[members] = group.train_all()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a step is too small to be shared by cores
    try:
        with ThreadPoolExecutor(min(_THREADS, threads)) as pool:
            list(pool.map(train, _groups(folds)))
    finally:
        torch.set_num_threads(threads)
    return Classifiers(best[..., :-1], best[..., -1], accuracy, rounds)


def _first_weights(dimension: int, classes: int, seed: int) -> torch.Tensor:
    """Return the weights that a linear layer starts with after this seed, the bias as last column."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = torch.nn.Linear(dimension, classes)
    return torch.cat([layer.weight, layer.bias[:, None]], dim=1).detach()


def _groups(folds: Sequence[Fold]) -> list[list[int]]:
    """Return groups of folds with equally many rows."""
    same: dict[tuple[int, int], list[int]] = {}
    for i, fold in enumerate(folds):
        held_out = -1 if fold.held_out is None else len(fold.held_out)
        same.setdefault((len(fold.train), held_out), []).append(i)
    return [found[i : i + _GROUP] for found in same.values() for i in range(0, len(found), _GROUP)]


class _Group:
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
        seed: int,
    ) -> None:
        self.features, self.labels = features, labels
        self.classes = len(first)
        self.truth = one_hot(labels, self.classes).to(torch.float32)
        self.random = np.random.RandomState(seed)
        self.train, self.held_out = (
            torch.from_numpy(rows).to(features.device) for rows in _rows(folds, self.random)
        )
        self.weights = first.repeat(*l2.shape, 1)  # [f, ck, d]
        self.decay = l2.repeat_interleave(self.classes, dim=1)[..., None]  # [f, ck, 1]
        self.optimiser = torch.optim.Adam([self.weights])
        self.folds = torch.arange(len(folds), device=features.device)  # those in training
        # what follows is kept for all folds
        self.right = torch.full_like(l2, -1, dtype=torch.int64)
        self.misses = torch.zeros_like(self.right)
        self.rounds = torch.zeros_like(self.right)
        self.best = first.repeat(*l2.shape, 1, 1)

    def train_all(self) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
        """Return the best weights, their accuracies, and the numbers of rounds."""
        size = self.held_out.shape[1]
        for _ in range(0, _MAX_PASSES + 1, _PASSES):
            for _ in range(_PASSES):
                order = torch.from_numpy(self.random.permutation(self.train.shape[1]))
                for rows in self.train[:, order.to(self.train.device)].split(_BATCH_SIZE, dim=1):
                    self._step(rows)
            self._score()
            left = (self.misses[self.folds] <= _TENACITY).any(dim=1)
            if not left.any():
                break
            if not left.all():
                self._keep(left)
        return self.best, self.right.cpu().numpy() / size, self.rounds.cpu().numpy()

    def _step(self, rows: torch.Tensor) -> None:
        features = self._gather(rows)  # [f, b, d]
        logits = torch.bmm(self.weights, features.transpose(1, 2)).unflatten(1, (-1, self.classes))
        truth = self.truth[rows].transpose(1, 2).unsqueeze(1)  # [f, 1, k, b]
        errors = logits.softmax(dim=2).sub_(truth).div_(rows.shape[1])
        gradient = torch.bmm(errors.flatten(1, 2), features)
        self.weights.grad = gradient.addcmul_(self.weights, self.decay)
        self.optimiser.step()

    def _gather(self, rows: torch.Tensor) -> torch.Tensor:
        return self.features.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)

    def _score(self) -> None:
        """Score the held-out rows, and take note of weights that are better than before."""
        logits = torch.bmm(self.weights, self._gather(self.held_out).transpose(1, 2))
        chosen = logits.unflatten(1, (-1, self.classes)).argmax(dim=2)
        right = (chosen == self.labels[self.held_out][:, None]).sum(dim=2)
        is_training = self.misses[self.folds] <= _TENACITY
        better = is_training & (right > self.right[self.folds])
        fold, choice = better.nonzero(as_tuple=True)
        self.right[self.folds[fold], choice] = right[better]
        self.best[self.folds[fold], choice] = self.weights.unflatten(1, (-1, self.classes))[better]
        self.misses[self.folds] += is_training & ~better
        self.rounds[self.folds] += is_training

    def _keep(self, left: torch.Tensor) -> None:
        """Go on with some of the folds."""
        self.folds, self.decay = self.folds[left], self.decay[left]
        self.train, self.held_out = self.train[left], self.held_out[left]
        state = self.optimiser.state[self.weights]
        self.weights.data = self.weights[left]
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = state[name][left]


def _rows(folds: list[Fold], random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of folds of equal size, to train on and held out."""
    train = np.stack([fold.train for fold in folds])
    held_out = [fold.held_out for fold in folds if fold.held_out is not None]
    if held_out:
        return train, np.stack(held_out)
    number = int(_HELD_OUT * train.shape[1])
    order = random.permutation(train.shape[1])
    return train[:, order[number:]], train[:, order[:number]]
