"""Choose a similarity on scored pairs. A replacement for plain cosine must beat it twice.

1. In cross-validation: each fold chooses the best candidate on the other folds and scores it against plain
   cosine on its own pairs. The mean gain estimates what choosing is worth on new pairs.
2. On all pairs, with an interval corrected for picking the best of many. Folds choose on nearly the same
   pairs, so cross-validation alone is too optimistic: with 28 equally good candidates and 1,000 pairs it
   reports a gain in 7% of simulations instead of 2.5%.

If both 95% intervals are above 0, the best candidate on all pairs is chosen; otherwise plain cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.evaluation.candidates import Candidate, candidate_similarities, candidates_for
from rankencoder.evaluation.pair_metrics import Metric, joint_name, joint_pairs, metric_for
from rankencoder.evaluation.pairwise import encode_pairs
from rankencoder.evaluation.statistics import ROUNDS, Interval, resample
from rankencoder.formatting import points

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder
    from rankencoder.forms import Form
    from rankencoder.io.pairs import ScoredPair

FEWEST = 30  # pairs of a set; a choice on fewer is hardly better than chance
FEWEST_FOLDS, FOLDS = 3, 10
_PER_FOLD = 50  # pairs of a set in a fold, where there are enough: correlations of fewer are mostly noise
_FEWEST_GROUPS = 5  # fewest groups for a bootstrap


@dataclass(frozen=True, kw_only=True)
class Result(Candidate):
    """A candidate with its score on all pairs.

    :param score: The mean over the sets, each by its own metric.
    :param gain: Gain over plain cosine, with a 95% interval that holds for all candidates at once.
    :param folds: How many folds chose it.
    """

    score: float
    gain: Interval
    folds: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**super().to_dict(), "gain": self.gain._asdict()}


@dataclass(frozen=True)
class Choice:
    """The chosen similarity, with the evidence.

    :param chosen: Plain cosine unless another is significantly better.
    :param results: All candidates, plain cosine first.
    :param gain: Gain over plain cosine on held-out pairs, with its 95% interval.
    :param metric: "Spearman", "average precision", or the mean of both.
    :param kind: Kind of the pairs: "scored", "yes/no", or both.
    :param pairs: Number of pairs of each set.
    :param groups: Number of groups of pairs that share sentences (see :func:`group_pairs`).
    """

    chosen: Result
    results: tuple[Result, ...]
    gain: Interval
    folds: int
    metric: str
    kind: str
    pairs: dict[str, int]
    groups: int

    @property
    def cosine(self) -> Result:
        """Plain cosine."""
        return self.results[0]

    @property
    def best(self) -> Result:
        """The candidate with the highest score on all pairs, perhaps by chance."""
        return max(self.results, key=lambda result: result.score)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            **vars(self),
            "chosen": self.chosen.to_dict(),
            "gain": {**self.gain._asdict(), "verdict": self.gain.verdict},
            "results": [result.to_dict() for result in self.results],
            "sentence": self.sentence(),
        }

    def sentence(self) -> str:
        """Summarize which similarity to use and why; scores are ×100."""
        best, number = self.best, sum(self.pairs.values())
        where = f"on {number:,} {self.kind} pairs"
        if self.groups <= number / 2:
            where += f" (in {self.groups:,} groups that share a sentence)"
        cosine, score = (f"{100 * one.score:.1f}" for one in (self.cosine, best))
        if not self.chosen.is_cosine:
            return (
                f"Use {best.name} in place of plain cosine: {self.metric} {score} against {cosine} {where}; "
                f"on held-out pairs the gain is {points(self.gain, 1, scale=100)}."
            )
        kept = f"Keep plain cosine: {self.metric} {cosine} {where}"
        if best.is_cosine:
            return f"{kept}, the best of {len(self.results)} similarities."
        doubtful = self.gain if self.gain.low <= 0 else best.gain
        name = best.name[:1].upper() + best.name[1:]
        return f"{kept}. {name} has {score}, but its gain may be chance: {points(doubtful, 1, scale=100)}."


def choose_similarity(
    encoder: Encoder,
    form: Form,
    rank_weight: float,
    sets: Mapping[str, Sequence[ScoredPair]],
    *,
    progress: bool = False,
) -> Choice:
    """Choose the similarity of an encoder on sets of scored pairs, given its current form and rank weight."""
    check_pairs(sets)
    candidates = candidates_for(form, rank_weight)
    encoded = encode_pairs(encoder, [pair for pairs in sets.values() for pair in pairs], progress=progress)
    return choose(sets, candidates, candidate_similarities(form, candidates, encoded))


def check_pairs(sets: Mapping[str, Sequence[ScoredPair]]) -> None:
    """Reject sets that are too small or whose scores are all equal."""
    for name, pairs in sets.items():
        if len(pairs) < FEWEST:
            raise InputError(
                f"{name}: {len(pairs)} scored pairs are too few to choose a similarity: use at least "
                f"{FEWEST}, better hundreds"
            )
        if len({pair.score for pair in pairs}) == 1:
            raise InputError(f"{name}: all scores are {pairs[0].score:g}: use pairs with different scores")


def choose(
    sets: Mapping[str, Sequence[ScoredPair]],
    candidates: Sequence[Candidate],
    similarities: np.ndarray,
) -> Choice:
    """Choose among candidates, plain cosine first, by the mean score over the sets.

    Sets of scored pairs are scored by Spearman's correlation, those of yes/no labels by average precision.

    :param similarities: Similarities of the pairs of all sets, ``[candidates, pairs]``.
    """
    pairs = [pair for some in sets.values() for pair in some]
    sizes = [len(some) for some in sets.values()]
    gold = np.array([pair.score for pair in pairs], dtype=np.float64)
    metrics = tuple(metric_for([pair.score for pair in some]) for some in sets.values())
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    weights = np.array([pair.weight for pair in pairs])
    data = ChoiceData(gold, similarities, numbers, group_pairs(pairs), metrics, weights)
    chosen, gain = cross_validate(data, assign_folds(data))
    scores = data.scores(np.ones((1, len(pairs)), dtype=np.uint16))[:, 0]
    gains = [Interval(0.0, 0.0, 0.0), *gain_intervals(data.gains, data.groups.max() + 1)]
    results = tuple(
        Result(**vars(candidate), score=float(score), gain=gained, folds=chosen.count(i))
        for i, (candidate, score, gained) in enumerate(zip(candidates, scores, gains, strict=True))
    )
    best = results[int(scores.argmax())]
    return Choice(
        chosen=best if gain.low > 0 and best.gain.low > 0 else results[0],
        results=results,
        gain=gain,
        folds=len(chosen),
        metric=joint_name(metrics),
        kind=joint_pairs(metrics),
        pairs=dict(zip(sets, sizes, strict=True)),
        groups=int(data.groups.max()) + 1,
    )


@dataclass(frozen=True)
class ChoiceData:
    """Scored pairs with each candidate's similarities (``[candidates, pairs]``), their sets and groups.

    :param metrics: The metric of each set, determined from all of its pairs: a fold might lack some labels.
    :param weights: How many pairs each stands for, used for yes/no labels.
    """

    gold: np.ndarray
    similarities: np.ndarray
    sets: np.ndarray
    groups: np.ndarray
    metrics: tuple[Metric, ...]
    weights: np.ndarray

    def part(self, pairs: np.ndarray, candidates: list[int]) -> ChoiceData:
        """Return a subset of the pairs, with the similarities of some candidates."""
        similarities = self.similarities[candidates][:, pairs]
        of_pairs = (self.sets[pairs], self.groups[pairs], self.metrics, self.weights[pairs])
        return ChoiceData(self.gold[pairs], similarities, *of_pairs)

    def scores(self, counts: np.ndarray) -> np.ndarray:
        """Return the mean score over the sets, ``[candidates, samples]``; 0 if undefined.

        :param counts: How often each pair is in a sample, ``[samples, pairs]``.
        """
        found = []
        for number in np.unique(self.sets):
            rows = self.sets == number
            metric = self.metrics[number]
            drawn = metric.weigh(counts[:, rows], self.weights[rows])
            values = metric.resampled(self.gold[rows], self.similarities[:, rows], drawn)
            found.append(np.nan_to_num(values))
        return np.asarray(np.mean(found, axis=0))

    def gains(self, counts: np.ndarray) -> np.ndarray:
        """Return the others' gains over the first candidate; here the counts are per group."""
        scores = self.scores(counts[:, self.groups])
        return np.asarray(scores[1:] - scores[0])


def group_pairs(pairs: Sequence[ScoredPair]) -> np.ndarray:
    """Return the group of each pair; folds and resamples keep dependent pairs together.

    Pairs connected by shared sentences form a group. If that puts most pairs into one, pairs that share
    their more frequent sentence (a query, say) form a group, and some sentences are in several folds.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ids: dict[str, int] = {}
    ends = np.array([[ids.setdefault(text, len(ids)) for text in (pair.a, pair.b)] for pair in pairs])
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(ids), len(ids)))
    connected = connected_components(graph, directed=False)[1][ends[:, 0]]
    _, groups, sizes = np.unique(connected, return_inverse=True, return_counts=True)
    if len(sizes) < _FEWEST_GROUPS or sizes.max() > len(pairs) / 2:
        others = ends[ends[:, 0] != ends[:, 1], 1]  # a sentence paired with itself counts once
        seen = np.bincount(np.concatenate([ends[:, 0], others]))
        frequent = np.where(seen[ends[:, 0]] >= seen[ends[:, 1]], ends[:, 0], ends[:, 1])
        _, groups, sizes = np.unique(frequent, return_inverse=True, return_counts=True)
    if len(sizes) < _FEWEST_GROUPS:
        message = f"too few different sentences: all pairs share one of {len(sizes)}; add other pairs"
        raise InputError(message)
    return np.asarray(groups)


def assign_folds(data: ChoiceData) -> np.ndarray:
    """Return the fold of each pair: groups are assigned at random, and each set is split about equally.

    Ten folds, or as few as three if a fold would otherwise have fewer than 50 pairs of some set.
    """
    counts = np.zeros((data.sets.max() + 1, data.groups.max() + 1))
    np.add.at(counts, (data.sets, data.groups), 1)
    groups = counts.shape[1]
    number = min(groups, max(FEWEST_FOLDS, min(FOLDS, int(counts.sum(axis=1).min()) // _PER_FOLD)))
    shares = counts / counts.sum(axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(groups)
    order = order[np.argsort(-shares[:, order].sum(axis=0), kind="stable")]  # large ones first
    folds, load = np.empty(groups, dtype=np.int64), np.zeros((len(shares), number))
    for group in order:
        folds[group] = load[shares[:, group] > 0].sum(axis=0).argmin()
        load[:, folds[group]] += shares[:, group]
    return np.asarray(folds[data.groups])


def cross_validate(data: ChoiceData, folds: np.ndarray) -> tuple[list[int], Interval]:
    """Let each fold choose on the others, and score the choice on its own pairs against plain cosine.

    :return: The number of the candidate that each fold chose, and the mean gain with its 95% interval.
    """
    numbers = np.arange(folds.max() + 1)
    others = (folds != numbers[:, None]).astype(np.uint16)
    chosen = [int(best) for best in data.scores(others).argmax(axis=0)]  # the first of ties: plain cosine
    parts = [data.part(folds == number, [0, chosen[number]]) for number in numbers]

    def gains(counts: np.ndarray) -> np.ndarray:
        sizes = [len(part.gold) for part in parts]
        return np.asarray(np.average([part.gains(counts) for part in parts], axis=0, weights=sizes))

    return chosen, gain_intervals(gains, data.groups.max() + 1)[0]


def gain_intervals(gains: Callable[[np.ndarray], np.ndarray], groups: int) -> list[Interval]:
    """Return the gain of each candidate, with simultaneous 95% intervals.

    A paired bootstrap of groups. The half-width of all intervals, in standard errors, is the 95th percentile
    of the largest deviation among the candidates (max-t, Romano and Wolf 2005). As the bootstrap of few
    groups is too narrow, the intervals are widened as in Hesterberg (2015).

    :param gains: Returns the gains ``[tried, samples]``, given how often each group is in each sample.
    """
    values = gains(np.ones((1, groups), dtype=np.uint16))[:, 0]
    samples = (resample(groups, rounds=100, seed=seed) for seed in range(ROUNDS // 100))  # memory is bounded
    resampled = np.concatenate([gains(counts) for counts in samples], axis=1)
    errors = resampled.std(axis=1)
    deviations = np.abs(resampled - values[:, None]) / np.maximum(errors, 1e-12)[:, None]
    half = errors * np.quantile(deviations.max(axis=0), 0.95) * _expansion(groups)
    return [Interval(float(v), float(v - h), float(v + h)) for v, h in zip(values, half, strict=True)]


def _expansion(number: int) -> float:
    """Return the factor by which the bootstrap interval of few groups is too narrow.

    >>> [round(_expansion(number), 3) for number in (10, 100, 1000)]
    [1.217, 1.017, 1.002]
    """
    from scipy.stats import norm, t

    return float(t.ppf(0.975, number - 1) / norm.ppf(0.975) * (number / (number - 1)) ** 0.5)
