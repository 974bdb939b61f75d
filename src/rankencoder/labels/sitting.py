"""A labeling session: asks about pairs, writes every answer at once, resumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from rankencoder.errors import InputError
from rankencoder.io.pairs import read_scored_pairs
from rankencoder.io.storage import new_file, write_json
from rankencoder.labels.pair_pool import Candidate, PairPool
from rankencoder.labels.same_posterior import Answers, bin_chances
from rankencoder.labels.threshold_curve import ThresholdCurve, draw_error_rates, make_curve

_HEADER = "score\tsentence1\tsentence2\tweight\tsimilarity\n"
EVERY = 10  # answers between two summaries
_CHECK_EVERY = 15  # answers
_HALVING = 3  # times as many further answers halve an interval: it narrows with their square root
_ALIKE = 20  # equal answers that cause doubt


@dataclass
class Sitting:
    """A labeling session so far. Use it in a ``with`` statement: one process writes at a time.

    :param path: The file of labels; the pool is kept beside it, as ``NAME.json``.
    :param precision: The target precision of the threshold, for which questions are chosen.
    :param given: The answers in order.
    :param skipped: Pairs that the labeler could not decide.
    :param checks: Pairs whose answer is known (random pairs, and repeated ones), and whether it was right;
        None if it was skipped.
    :param disputed: Pairs that two labelers answered differently, which were dropped.
    :param shared: How many pairs both have answered.
    """

    path: Path
    pool: PairPool
    precision: float = 0.9
    given: list[tuple[Candidate, bool]] = field(default_factory=list)
    skipped: list[Candidate] = field(default_factory=list)
    checks: list[tuple[Candidate, bool | None]] = field(default_factory=list)
    disputed: list[list[str]] = field(default_factory=list)
    shared: int = 0
    _stamp: tuple[int, ...] = field(default=(), repr=False)
    _done: list[list[Any]] = field(default_factory=list, repr=False)  # lists added to, for `undo`

    @classmethod
    def find(cls, path: Path, fingerprint: Callable[[], str]) -> Sitting | None:
        """Return the session stored in a file, for the same model; None if there is no such file yet.

        :param fingerprint: Returns the model's fingerprint, which takes a moment.
        :raises InputError: If the file belongs to another model, or is not a file of labels.
        """
        if path.suffix.lower() != ".tsv":
            raise InputError(f"{path}: the file of labels must end in .tsv")
        if not pool_file(path).exists():
            if path.exists():
                raise InputError(f"{path} is not a file of labels to resume: choose another name")
            return None
        sitting = cls.resume(path)
        if sitting.pool.model != fingerprint():
            raise InputError(
                f"{path} was labeled with {sitting.pool.name}, which is not this model or has changed since: "
                "label into a new file, or fit a threshold to these labels"
            )
        return sitting

    @classmethod
    def resume(cls, path: Path) -> Sitting:
        """Read a stored session."""
        if not (stamp := _stamp(path)):
            raise InputError(f"no such file: {path}")
        if not pool_file(path).exists():
            raise InputError(
                f"{path} was not written by `label`: {pool_file(path).name} is missing beside it"
            )
        pool, stored = PairPool.load(pool_file(path))
        known = {(one.a, one.b): one for row in pool.bins for one in row}
        sitting = cls(path, pool, _stamp=stamp)
        try:
            sitting.precision = min(0.999, max(0.01, float(stored.get("precision", 0.9))))
            sitting.skipped = [known[a, b] for a, b in stored.get("skipped", [])]
            sitting.checks = [(Candidate(*pair), right) for *pair, right in stored.get("checks", [])]
            sitting.disputed = [[str(a), str(b)] for a, b in stored.get("disputed", [])]
            sitting.shared = max(len(sitting.disputed), int(stored.get("shared", 0)))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{pool_file(path)} is damaged ({error}): label into a new file") from error
        for pair in read_scored_pairs(path, check=False) if path.exists() else ():
            found = known.pop((pair.a, pair.b), None)
            if found is None:
                raise InputError(
                    f"{path}: {pair.a[:60]!r} and {pair.b[:60]!r} are not an unanswered pair of this session"
                )
            sitting.given.append((found, pair.score > 0))
        return sitting

    def __enter__(self) -> Sitting:
        self._lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=0)
        try:
            self._lock.acquire()
        except Timeout:
            raise InputError(
                f"{self.path} is locked by another labeler: label into another file, then `merge` it"
            ) from None
        if not pool_file(self.path).exists():
            self._write_pool()
        elif self._stamp != _stamp(self.path):  # another process had its turn
            vars(self).pop("_next", None)
            vars(self).update({**vars(Sitting.resume(self.path)), "precision": self.precision})
        return self

    def __exit__(self, *_: Any) -> None:
        self._stamp = _stamp(self.path)
        self._lock.release()

    def answers(self) -> Answers:
        """Return the answers by bins."""
        asked, yes = np.zeros((2, len(self.pool.bins)))
        for candidate, same in self.given:
            asked[candidate.bin] += 1
            yes[candidate.bin] += same
        return Answers(self.pool.edges, self.pool.population, asked, yes)

    def question(self) -> Candidate | None:
        """Return the next pair to ask, the same until it is answered or skipped; None if none is left."""
        return self._next

    @cached_property
    def _next(self) -> Candidate | None:
        number = len(self.given)
        if number >= _CHECK_EVERY * (len(self.checks) + 1):
            return self._check()
        over = [*(one for one, _ in self.given), *self.skipped]
        asked = {(one.a, one.b) for one in over} | {(a, b) for a, b in self.disputed}
        free = [[one for one in row if (one.a, one.b) not in asked] for row in self.pool.bins]
        chances = bin_chances(self.answers(), np.array([len(row) for row in free]), self.precision)
        if not chances.any():
            return None
        rng = np.random.default_rng([self.pool.seed, number, len(self.skipped)])
        return free[rng.choice(len(free), p=chances)][0]

    def _check(self) -> Candidate:
        """Return, alternately, a random pair and an answered one with its sentences swapped."""
        turn, repeat = divmod(len(self.checks), 2)
        if not repeat and turn < len(self.pool.obvious):
            return self.pool.obvious[turn]
        old, _ = self.given[(turn * _CHECK_EVERY) % max(1, len(self.given) - _CHECK_EVERY)]
        return Candidate(old.b, old.a, old.similarity)

    def press(self, key: str) -> bool:
        """Answer (y, n), skip (s) or undo (u), and return whether there was something to undo."""
        if key == "u":
            return self.undo()
        self.answer(None if key == "s" else key == "y")
        return True

    def answer(self, same: bool | None) -> None:
        """Record the answer to the question, or None to skip it."""
        asked = self.question()
        if asked is None:
            raise InputError("no question is left to answer")
        changed: list[Any] = self.skipped if same is None else self.given
        entry: Any = asked if same is None else (asked, same)
        if asked.bin is None:
            before = {(one.b, one.a): given for one, given in self.given}
            right = same == before.get((asked.a, asked.b), False)
            changed, entry = self.checks, (asked, None if same is None else right)
        changed.append(entry)
        self._done.append(changed)
        self._write(changed)

    def undo(self) -> bool:
        """Undo the last answer or skip, and return whether there was one."""
        last = self._done.pop() if self._done else self.given  # from an earlier session, only answers
        if not last:
            return False
        last.pop()
        self._write(last)
        return True

    def curve(self) -> ThresholdCurve:
        """Return the curve of precision and recall that follows from the answers."""
        random = {(one.a, one.b) for one in self.pool.obvious}
        checks = [(one, right) for one, right in self.checks if right is not None]
        errors = sum(not right for _, right in checks) + len(self.disputed)
        trials = 2 * self.shared + sum(1 if (one.a, one.b) in random else 2 for one, _ in checks)
        rates = draw_error_rates(errors, trials)
        about = (self.pool.model, self.pool.name)
        return make_curve(self.answers(), *about, populations=self.pool.draw_populations(), error_rates=rates)

    def summary(self) -> str:
        """Summarize the answers so far, and how many more would halve the interval."""
        number = len(self.given)
        if len({same for _, same in self.given}) < 2:
            return f"{number} answers, all the same: no threshold yet"
        curve = self.curve()
        found = curve.for_precision(self.precision)
        at = curve.most_precise() if found is None else found
        width = curve.precision.high[at] - curve.precision.low[at]
        said = "" if found is not None else f"No threshold of precision {self.precision:g} yet; the surest: "
        return (
            f"{number} answers. {said}from {curve.describe(at)}. "
            f"About {_HALVING * number} more answers halve the interval ({width:.2f} wide)"
        )

    def doubts(self) -> list[str]:
        """Return reasons to doubt the answers."""
        said = []
        if wrong := sum(right is False for _, right in self.checks):
            said.append(f"{wrong} of {len(self.checks)} check questions were answered wrongly")
        if self.disputed:
            said.append(f"the labelers disagree on {len(self.disputed)} pairs, which were dropped")
        if len(self.given) >= _ALIKE and len({same for _, same in self.given}) == 1:
            said.append(f"all {len(self.given)} answers are {'yes' if self.given[0][1] else 'no'}")
        return said

    def merge(self, other: Sitting) -> int:
        """Add the answers of another session on the same pool, and return how many.

        Merging the same file again changes nothing.
        """
        if self.path.resolve() == other.path.resolve():
            raise InputError(f"cannot merge {self.path} with itself")
        if self.pool.model != other.pool.model or not np.array_equal(self.pool.edges, other.pool.edges):
            raise InputError(f"{other.path} and {self.path} differ in model, corpus or seed")
        old = {(a, b) for a, b in self.disputed}
        mine = {(one.a, one.b): same for one, same in self.given}
        theirs = {(one.a, one.b): same for one, same in other.given if (one.a, one.b) not in old}
        differ = {pair for pair, same in theirs.items() if mine.get(pair, same) != same}
        own = {(one.a, one.b): one for row in self.pool.bins for one in row}
        new = [(own[pair], same) for pair, same in theirs.items() if pair not in mine and pair in own]
        if new or differ:
            self.shared += len(theirs.keys() & mine.keys())
        self.given = [(one, same) for one, same in self.given if (one.a, one.b) not in differ] + new
        self.checks += [check for check in other.checks if check not in self.checks]
        self.disputed += [list(pair) for pair in sorted(differ)]
        self._done.clear()
        self._write_answers()
        self._write_pool()
        return len(new)

    def _write(self, changed: list[Any]) -> None:
        self._write_answers() if changed is self.given else self._write_pool()

    def _write_answers(self) -> None:
        vars(self).pop("_next", None)
        weights = bin_weights(self.answers())
        with new_file(self.path) as path, open(path, "w", encoding="utf-8") as file:
            file.write(_HEADER)
            for one, same in self.given:
                number = f"{weights[one.bin or 0]:.6g}\t{one.similarity:.6f}"
                file.write(f"{int(same)}\t{one.a}\t{one.b}\t{number}\n")

    def _write_pool(self) -> None:
        vars(self).pop("_next", None)
        state = {
            "precision": self.precision,
            "skipped": [[one.a, one.b] for one in self.skipped],
            "checks": [[one.a, one.b, one.similarity, right] for one, right in self.checks],
            "disputed": self.disputed,
            "shared": self.shared,
        }
        with new_file(pool_file(self.path)) as path:
            write_json(path, {**self.pool.to_dict(), **state})


def pool_file(labels: Path) -> Path:
    """Return where the pool of a file of labels is."""
    return labels.with_name(f"{labels.name}.json")


def _stamp(path: Path) -> tuple[int, ...]:
    """Return a stamp that changes whenever a session is written."""
    found = [one.stat() for one in (path, pool_file(path)) if one.exists()]
    return tuple(number for one in found for number in (one.st_ino, one.st_mtime_ns))


def bin_weights(answers: Answers) -> np.ndarray:
    """Return how many pairs an answer in each bin stands for; bins without answers join the nearest."""
    asked = np.flatnonzero(answers.asked)
    if not len(asked):
        return np.zeros(len(answers.asked))
    nearest = asked[np.abs(asked[:, None] - np.arange(len(answers.asked))).argmin(axis=0)]
    population = np.bincount(nearest, answers.population, len(answers.asked))
    return np.asarray(population / np.maximum(answers.asked, 1))
