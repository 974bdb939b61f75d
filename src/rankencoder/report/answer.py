"""Answer which encoder and similarity to use, and whether the difference from the others is real."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankencoder.evaluation.pair_metrics import joint_name, metric_for
from rankencoder.evaluation.results import Row, averaged_sets
from rankencoder.evaluation.statistics import BootstrapScores, Interval, mean_gain
from rankencoder.formatting import clean, listed, number, plural, points
from rankencoder.report.document import NextStep, Tile, Tiles
from rankencoder.report.encoder_views import View

_MOST_PAIRS = 1_000_000  # beyond this, a difference does not matter


class System(NamedTuple):
    """An encoder with one of its similarities."""

    view: View
    kind: str

    @property
    def row(self) -> Row:
        """Its scores."""
        return self.view.rows[self.kind]

    @property
    def name(self) -> str:
        """Display name."""
        return f"{self.view.name}, {self.view.similarity(self.kind)}"


@dataclass(frozen=True)
class Answer:
    """The system to use.

    :param systems: All that were scored on the same pairs: the one to use, then the others, best first.
    :param sets: The sets that decide: the user's own or else the test sets.
    :param called: Name of these sets.
    """

    systems: list[System]
    sets: list[str]
    called: str

    @property
    def best(self) -> System:
        """The system to use."""
        return self.systems[0]

    def score(self, system: System) -> Interval:
        """Return a system's mean score with its 95% interval."""
        own = [system.row.bootstrap(name) for name in self.sets]
        return mean_gain([(BootstrapScores(0 * one.samples, 0 * one.runs), one) for one in own])

    def difference(self, system: System) -> Interval:
        """Return a system's lead over the best, by a paired bootstrap."""
        found = system.row.gain_over(self.best.row, self.sets)
        assert found is not None  # they were scored on the same pairs
        return found

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return joint_name(tuple(metric_for(self.best.row.golds[name]) for name in self.sets))

    @property
    def pairs(self) -> int:
        """Number of pairs in the sets."""
        return sum(len(self.best.row.golds[name]) for name in self.sets)

    @property
    def rivals(self) -> list[System]:
        """The runners-up: the other encoders, or else its own other similarities."""
        others = [s for s in self.systems if s.view is not self.best.view and s.kind == advised_kind(s.view)]
        others = [s for s in others if any(self.difference(s))]  # not the same encoder twice
        return others or [s for s in self.systems[1:] if s.view is self.best.view]


def find_answer(views: Sequence[View]) -> Answer | None:
    """Find the best of the systems that were scored on the same pairs as the first."""
    systems = [System(view, kind) for view in views for kind in view.rows]
    if not systems:
        return None
    golds = systems[0].row.golds
    shared = [name for name in golds if all(_has(s.row, name, golds[name]) for s in systems)]
    called, names = list(averaged_sets(shared or list(golds)).items())[-1]
    compared = [s for s in systems if all(_has(s.row, name, golds[name]) for name in names)]
    scores = {s: np.mean([s.row.bootstrap(name).runs.mean() for name in names]) for s in compared}
    advised = [s for s in compared if s.kind == advised_kind(s.view)]
    best = max(advised, key=lambda s: (scores[s], s.view.own_form is None))  # the plain encoder if tied
    ordered = sorted(compared, key=lambda s: (s != best, -scores[s]))
    return Answer(ordered, names, clean(called))


def _has(row: Row, name: str, gold: np.ndarray) -> bool:
    return name in row.golds and np.array_equal(row.golds[name], gold)


def advised_kind(view: View) -> str:
    """Return the similarity to use with an encoder: cosine, unless another was chosen on dev pairs."""
    chosen = view.chosen
    if chosen is None or (chosen["form"], chosen["settings"]) != view.own_form:
        return "cosine"
    weights = {"ranks": 1.0, "blend": view.subject["rank_weight"]}
    return next((kind for kind, weight in weights.items() if weight == chosen["rank_weight"]), "cosine")


def answer_tiles(answer: Answer) -> Tiles:
    """Return the tiles: what to use, its score, and its threshold."""
    best, score = answer.best, answer.score(answer.best)
    similarity = best.view.similarity(best.kind)
    name = f"{best.view.name}, {'plain cosine' if similarity == 'cosine' else similarity}"
    low, high = number(score.low, 1), number(score.high, 1)
    pairs = plural(answer.pairs, "pair")
    about = f"{answer.metric} ×100 on {answer.called} ({pairs}); 95% interval {low} to {high}."
    tiles = [
        Tile("Use this", name, _compare(answer) + _chosen_on(answer)),
        Tile("Its score", number(score.value, 1), about[:1].upper() + about[1:]),
        _threshold(answer),
    ]
    return Tiles(tiles, _next_step(answer))


def _compare(answer: Answer) -> str:
    """Say whether the lead over the runner-up is real."""
    if not answer.rivals:
        return "Nothing else was scored."
    best, rival = answer.best, answer.rivals[0]
    ahead = answer.difference(rival)
    gain = Interval(-ahead.value, -ahead.high, -ahead.low)
    name, similarity = rival.view.name, rival.view.similarity(rival.kind)
    if similarity != best.view.similarity(best.kind):
        name = similarity if rival.view is best.view else rival.name
    if gain.verdict == "better":
        return f"Better than {name} by {points(gain, signed=False)}: a real difference."
    if gain.verdict == "worse":
        return f"{name} scores higher by {points(ahead, signed=False)}, but was not chosen on the dev pairs."
    text = f"No real difference from {name}: {points(gain)}."
    needed = answer.pairs * ((gain.high - gain.low) / 2 / max(abs(gain.value), 1e-9)) ** 2
    if needed < _MOST_PAIRS:
        text += f" About {number(float(f'{needed:.1g}'), 0)} pairs would settle it."
    return text


def _chosen_on(answer: Answer) -> str:
    """Say how the similarity was chosen, unless it is cosine."""
    choices = answer.best.view.parts("choice")
    if answer.best.kind == "cosine" or not choices:
        return ""
    gain = points(Interval(*(choices[0]["gain"][key] for key in Interval._fields)), scale=100)
    return f" Chosen on {listed(map(clean, choices[0]['pairs']))}: {gain} over cosine on held-out pairs."


def _threshold(answer: Answer) -> Tile:
    """Return the threshold of the first set with yes/no labels."""
    for name, runs in answer.best.row.yes_no.items():
        at, f1 = runs[0]["threshold"], runs[0]["best_f1"]
        return Tile(
            "Its threshold",
            number(at["value"], 3),
            f"Accept pairs at or above it: best F1 on {clean(name)}{answer.best.view.run}, "
            f"{number(f1['value'], 1)}. 95% interval {number(at['low'], 3)} to {number(at['high'], 3)}. "
            "Expect a little less on new pairs.",
        )
    return Tile(
        "Its threshold", "none yet", "A threshold needs yes/no labels; these pairs have graded scores."
    )


def _next_step(answer: Answer) -> NextStep:
    view, data = answer.best.view, answer.best.view.members[0]["data"]
    model = view.members[0]["model"]
    path, chosen = shlex.quote(clean(model["path"] or model["label"])), view.chosen
    if chosen and chosen["rank_weight"] and answer.best.kind == "cosine":
        names = [name for name in view.parts("choice")[0]["pairs"] if name in data]
        return NextStep("tune", path, _files(data, names), clean(chosen["name"]))
    if not answer.best.row.yes_no:
        return NextStep("label", path)
    files, is_folder = _files(data, list(answer.best.row.yes_no)[:1]), Path(model["path"] or "").is_absolute()
    return NextStep("threshold", path, files, is_folder=is_folder)


def _files(data: dict[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(shlex.quote(clean(data[name]["source"])) for name in names)
