"""The choice of a similarity on scored pairs: what does better than plain cosine must prove it, twice.

First, by cross-validation: each fold chooses the candidate that is best on the other folds and scores it
against plain cosine on its own pairs. The mean of these gains is an honest estimate of what choosing gains;
its 95% interval is by a paired bootstrap with the folds' choices kept. Second, on all pairs: the gain of the
best candidate, its interval corrected for its being the best of many. For the folds' choices are made on
nearly the same pairs, and where all are equally lucky, cross-validation alone is taken in more often than its
interval says (with 28 candidates of equal worth and 1,000 pairs in 7% of simulations, not in 2.5%).

Where both intervals are above 0, the candidate that is best on all pairs is taken; otherwise plain cosine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.evaluation.candidates import Candidate, candidate_similarities, candidates_for
from rankencoder.evaluation.cross_validation import (
    Cell,
    DevSet,
    Groups,
    assign_folds,
    cross_validate,
    gain_intervals,
    group_pairs,
)
from rankencoder.evaluation.pairwise import encode_pairs
from rankencoder.evaluation.statistics import Interval

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder
    from rankencoder.forms import Form
    from rankencoder.io.pairs import ScoredPair

_CAVEATS = {
    "components": "",
    "sentences": " Most pairs hang together through shared sentences; only those that share their more "
    "frequent one were kept in the same fold, so the interval is somewhat too narrow.",
    "pairs": " The pairs share so many sentences that no folds could keep them apart; they were treated as "
    "independent, which they are not, so the interval is too narrow.",
}


@dataclass(frozen=True)
class Result:
    """How one candidate does on all pairs.

    :param spearman: The mean over the sets.
    :param gain: Over plain cosine, with a 95% interval that holds for all candidates at once.
    :param folds: How many folds chose it.
    """

    candidate: Candidate
    spearman: float
    by_set: dict[str, float]
    gain: Interval
    folds: int

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        about = vars(self) | {"gain": self.gain._asdict()}
        return {**about.pop("candidate").to_dict(), **about}


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    :param chosen: Plain cosine where nothing is proved better.
    :param results: All candidates, plain cosine first.
    :param gain: What choosing gains over plain cosine on pairs that had no part in it, with 95% interval.
    :param grouping: What was kept in one fold (see `rankencoder.evaluation.cross_validation.Groups`).
    """

    chosen: Candidate
    results: tuple[Result, ...]
    gain: Interval
    fold_choices: tuple[Candidate, ...]
    pairs: dict[str, int]
    grouping: str
    groups: int

    @property
    def cosine(self) -> Result:
        """How plain cosine does."""
        return self.results[0]

    @property
    def best(self) -> Result:
        """What does best on all pairs, be it by luck."""
        return max(self.results, key=lambda result: result.spearman)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "chosen": self.chosen.to_dict(),
            "gain": {**self.gain._asdict(), "verdict": self.gain.verdict},
            "pairs": self.pairs,
            "folds": len(self.fold_choices),
            "fold_choices": [candidate.name for candidate in self.fold_choices],
            "grouping": self.grouping,
            "groups": self.groups,
            "results": [result.to_dict() for result in self.results],
            "sentence": self.sentence(),
        }

    def sentence(self) -> str:
        """Say in words what was chosen and what it is worth; correlations ×100, as the field prints them."""
        folds, best, others = len(self.fold_choices), self.best, len(self.results) - 1
        where, cosine = self._where(), f"{100 * self.cosine.spearman:.1f}"
        scores = (
            f"Spearman {100 * best.spearman:.1f} against {cosine}, a gain of {_points(best.gain)}, corrected "
            f"for its being the best of {others})"
        )
        proof = (
            f"Chosen anew in each of {folds} folds and scored on pairs that had no part in the choice, the "
            f"gain is {_points(self.gain)})"
        )
        name = best.candidate.name[:1].upper() + best.candidate.name[1:]
        if not self.chosen.is_cosine:
            text = (
                f"{name} does better than plain cosine on these {where}: {scores}. {proof}; {best.folds} of "
                f"the {folds} folds chose this very candidate. Data unlike these pairs may tell otherwise."
            )
        elif best.candidate.is_cosine:
            text = (
                f"Nothing beats plain cosine on these {where}: its Spearman is {cosine}, and none of the "
                f"{others} other candidates is above. {proof}."
            )
        else:
            text = (
                f"Nothing beats plain cosine on these {where} by more than chance. {name} looks best: "
                f"{scores}. {proof}. As not both intervals are above 0, this may be luck, and plain cosine "
                "is kept."
            )
        return text + _CAVEATS[self.grouping]

    def _where(self) -> str:
        number = sum(self.pairs.values())
        where = f"{number:,} scored pairs" + (f" in {len(self.pairs)} sets" if len(self.pairs) > 1 else "")
        if self.grouping == "components" and self.groups <= number / 2:
            where += f" ({self.groups:,} groups that share no sentence)"
        return where


def choose_similarity(
    encoder: Encoder,
    form: Form,
    rank_weight: float,
    sets: Mapping[str, Sequence[ScoredPair]],
    *,
    progress: bool = False,
) -> Choice:
    """Choose the similarity of an encoder, with its present form and rank weight, on sets of scored pairs."""
    candidates = candidates_for(form, rank_weight)
    encoded = encode_pairs(encoder, [pair for pairs in sets.values() for pair in pairs], progress=progress)
    similarities = candidate_similarities(form, candidates, encoded)
    parts = np.split(similarities, np.cumsum([len(pairs) for pairs in sets.values()])[:-1], axis=1)
    scored = [DevSet(name, sets[name], part) for name, part in zip(sets, parts, strict=True)]
    return choose(scored, candidates)


def choose(sets: Sequence[DevSet], candidates: Sequence[Candidate], *, seed: int = 0) -> Choice:
    """Choose among candidates, plain cosine first, by the mean correlation over the sets."""
    groups = group_pairs([dev.pairs for dev in sets])
    chosen, gain = cross_validate(sets, groups, assign_folds(groups, seed=seed))
    results = tuple(_results(sets, groups, candidates, chosen))
    best = max(results, key=lambda result: result.spearman)
    return Choice(
        chosen=best.candidate if gain.low > 0 and best.gain.low > 0 else candidates[0],
        results=results,
        gain=gain,
        fold_choices=tuple(candidates[i] for i in chosen),
        pairs={dev.name: len(dev.pairs) for dev in sets},
        grouping=groups.kind,
        groups=groups.number,
    )


def _results(
    sets: Sequence[DevSet], groups: Groups, candidates: Sequence[Candidate], chosen: list[int]
) -> Iterator[Result]:
    """Yield each candidate's figures on all pairs."""
    cells = [
        [Cell(dev.gold, labels, dev.similarities[0], dev.similarities[1:])]
        for dev, labels in zip(sets, groups.labels, strict=True)
    ]
    gains = [Interval(0.0, 0.0, 0.0), *gain_intervals(cells, groups.number)]
    whole = [np.ones((1, len(dev.pairs)), dtype=np.uint16) for dev in sets]
    for i, (candidate, gain) in enumerate(zip(candidates, gains, strict=True)):
        scores = [float(dev.correlations(i, mask)[0]) for dev, mask in zip(sets, whole, strict=True)]
        by_set = {dev.name: score for dev, score in zip(sets, scores, strict=True)}
        yield Result(candidate, float(np.mean(scores)), by_set, gain, chosen.count(i))


def _points(gain: Interval) -> str:
    """Print a gain in points, the bracket left open.

    >>> _points(Interval(0.0312, -0.002, 0.064))
    '+3.1 points (95% interval −0.2 to +6.4'
    """
    value, low, high = (f"{100 * number:+.1f}".replace("-", "−") for number in gain)
    return f"{value} points (95% interval {low} to {high}"
