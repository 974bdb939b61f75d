"""What was chosen, and how it does on pairs that were not chosen on, as far as the curves hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.evaluation.result_rows import averaged_sets
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.report.formatting import clean, listed, number, plural

if TYPE_CHECKING:
    from rankencoder.report.views import View

_SHARED = (
    "STS-B dev was drawn from the same years as STS12–16 and shares pairs with them, as everywhere in the "
    "field, so scores there are no independent check."
)


@dataclass(frozen=True)
class Check:
    """The scores of what was chosen on sets that were not chosen on, each the mean over runs.

    :param called: What to call the sets.
    :param sets: How many there are.
    :param score: None where it was not measured.
    """

    called: str
    sets: int
    score: float | None = None
    cosine: float | None = None
    runs: int = 1

    @property
    def is_better(self) -> bool | None:
        """Whether it does better than cosine, where that is known."""
        return None if self.score is None or self.cosine is None else self.score > self.cosine


def check_choice(view: View) -> Check | None:
    """Look up what was chosen on the sets that were not chosen on; None where there is nothing to look up."""
    runs = _runs(view)
    if all(choice["chosen"]["rank_weight"] == 0 for choice, _, _ in runs):
        return None
    tests = _tests(view, runs)
    if not tests:
        return None
    called, names = next(iter(averaged_sets(tests).items()))
    scores = [_scores(choice["chosen"], curves, form, names) for choice, curves, form in runs]
    known = [pair for pair in scores if pair is not None]
    if len(known) < len(scores):
        return Check(called, len(names))
    score, cosine = (float(value) for value in np.mean(known, axis=0))
    return Check(called, len(names), score, cosine, len(known))


def check_told(view: View, check: Check | None) -> list[str]:
    """Tell how the chosen similarity does on sets that were not chosen on, or that nobody knows."""
    if check is None:
        return []
    names = {choice["chosen"]["name"] for choice in view.parts("choice") if "chosen" in choice}
    what = clean(names.pop()) if len(names) == 1 else "what each run chose"
    if check.score is None:
        return [f"How {what} does on {clean(check.called)} was not measured."]
    runs = f" (mean of {plural(check.runs, 'run')})" if check.runs > 1 else ""
    average = " on average" if check.sets > 1 else ""
    but = "" if check.is_better else ", so it is not shown to do better there"
    return [
        f"On {clean(check.called)}, {what} scores {number(check.score)}{average}{runs} against "
        f"{number(check.cosine)} of cosine{but}."
    ]


def caveat(view: View) -> list[str]:
    """Say where the pairs that were chosen on are not apart from those that are tested on."""
    chosen_on = chosen_sets(view)
    if not chosen_on:
        return []
    scored = {name for row in view.rows.values() for name in row.golds}
    told = [_SHARED] if "STS-B dev" in chosen_on and scored & set(SEVEN) - {"SICK-R"} else []
    own = [clean(name) for name in chosen_on if name not in DEV and name in scored]
    if own:
        told.append(f"The choice was made on {listed(own)}: figures on these pairs do not check it.")
    return told


def chosen_sets(view: View) -> list[str]:
    """Return the sets that the choice was made on."""
    return list(dict.fromkeys(name for choice in view.parts("choice") for name in choice.get("pairs", {})))


def is_own_form(chosen: dict[str, Any], form: dict[str, Any] | None) -> bool:
    """Say whether a candidate is by the form that the encoder has."""
    return form is not None and (chosen["form"], chosen["settings"]) == (form["name"], form["settings"])


_Run = tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]


def _runs(view: View) -> list[_Run]:
    """Return choice, curves and present form of each run that has chosen something."""
    found = []
    for member in view.members:
        choice = (member.get("choice") or {}).get(view.role) or {}
        curves = (member.get("curves") or {}).get(view.role) or {}
        if "chosen" in choice:
            found.append((choice, curves, view.subject_of(member).get("form")))
    return found


def _tests(view: View, runs: Sequence[_Run]) -> list[str]:
    """Return the sets that were scored and neither chosen on nor made for choosing."""
    not_those = {*DEV, *(name for choice, _, _ in runs for name in choice.get("pairs", {}))}
    row = view.rows.get("cosine")
    return [name for name in row.golds if name not in not_those] if row is not None else []


def _scores(
    chosen: dict[str, Any], curves: dict[str, Any], form: dict[str, Any] | None, names: list[str]
) -> tuple[float, float] | None:
    """Return the mean score on some sets, and that of cosine; None where the curves do not hold it."""
    if not curves:
        return None
    weights = curves["rank-weight"]
    plain, at = weights["scores"], weights["x"].index(0)
    cosine = _average(plain, names, at)
    if chosen["rank_weight"] == 0:
        score = cosine
    elif is_own_form(chosen, form) and chosen["rank_weight"] in weights["x"]:
        score = _average(plain, names, weights["x"].index(chosen["rank_weight"]))
    elif chosen["form"] == "linear" and chosen["rank_weight"] == 1:
        powers, power = curves["power"], chosen["settings"]["power"]
        how = "centred" if chosen["settings"]["center"] else "plain"
        score = _average(powers[how], names, powers["x"].index(power)) if power in powers["x"] else None
    else:
        score = None
    return None if score is None or cosine is None else (score, cosine)


def _average(scores: dict[str, list[float]], names: list[str], at: int) -> float | None:
    if tuple(names) == SEVEN and "AVG" in scores:
        return scores["AVG"][at]
    if not all(name in scores for name in names):
        return None
    return float(np.mean([scores[name][at] for name in names]))
