"""How the chosen similarity does on pairs that were not chosen on, as far as the curves hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankencoder.evaluation.result_rows import averaged_sets
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.report.encoder_views import View
from rankencoder.report.formatting import clean, listed, number, plural

_SHARED = (
    "STS-B dev was drawn from the same years as STS12–16 and shares pairs with them, as everywhere in the "
    "field, so scores there are no independent check."
)


@dataclass(frozen=True)
class Check:
    """The scores of what was chosen on sets that were not chosen on, each the mean over runs.

    :param called: What to call the sets.
    :param score: None where it was not measured.
    """

    called: str
    sets: int
    score: float | None = None
    cosine: float = 0.0
    runs: int = 1

    @property
    def is_better(self) -> bool | None:
        """Whether it does better than cosine, where that is known."""
        return None if self.score is None else self.score > self.cosine


def check_choice(view: View) -> Check | None:
    """Look up what was chosen on the sets that were not chosen on; None where there is nothing to look up."""
    runs = [member for member in view.members if "chosen" in view.part_of(member, "choice")]
    if all(view.part_of(member, "choice")["chosen"]["rank_weight"] == 0 for member in runs):
        return None
    row = view.rows.get("cosine")
    tests = [n for n in row.golds if n not in (*DEV, *chosen_sets(view))] if row is not None else []
    if not tests:
        return None
    called, names = next(iter(averaged_sets(tests).items()))
    scores = [_scores(view, member, names) for member in runs]
    known = [pair for pair in scores if pair is not None]
    if len(known) < len(scores):
        return Check(called, len(names))
    score, cosine = (float(value) for value in np.mean(known, axis=0))
    return Check(called, len(names), score, cosine, len(known))


def describe_check(view: View, check: Check | None) -> list[str]:
    """Say how the chosen similarity does on sets that were not chosen on, or that nobody knows."""
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


def caveats(view: View) -> list[str]:
    """Say where the pairs that were chosen on are not apart from those that are tested on."""
    chosen_on = chosen_sets(view)
    scored = {name for row in view.rows.values() for name in row.golds}
    found = [_SHARED] if "STS-B dev" in chosen_on and scored & set(SEVEN) - {"SICK-R"} else []
    own = [clean(name) for name in chosen_on if name not in DEV and name in scored]
    if own:
        found.append(f"The choice was made on {listed(own)}: figures on these pairs do not check it.")
    return found


def chosen_sets(view: View) -> list[str]:
    """Return the sets that the choice was made on."""
    return list(dict.fromkeys(name for choice in view.parts("choice") for name in choice.get("pairs", {})))


def is_own_form(chosen: dict[str, Any], form: dict[str, Any] | None) -> bool:
    """Say whether a candidate is by the form that the encoder has."""
    return form is not None and (chosen["form"], chosen["settings"]) == (form["name"], form["settings"])


def _scores(view: View, member: dict[str, Any], names: Sequence[str]) -> tuple[float, float] | None:
    """Return one run's mean score on some sets, and that of cosine; None where its curves do not hold it."""
    chosen, curves = view.part_of(member, "choice")["chosen"], view.part_of(member, "curves")
    if not curves:
        return None
    scores, x, at = curves["rank-weight"]["scores"], curves["rank-weight"]["x"], chosen["rank_weight"]
    cosine = _average(scores, names, x, 0)
    if at == 0 or is_own_form(chosen, view.subject_of(member).get("form")):
        score = _average(scores, names, x, at)
    elif chosen["form"] == "linear" and at == 1:
        powers, settings = curves["power"], chosen["settings"]
        how = "centred" if settings["center"] else "plain"
        score = _average(powers[how], names, powers["x"], settings["power"])
    else:
        score = None
    return None if score is None or cosine is None else (score, cosine)


def _average(scores: dict[str, list[float]], names: Sequence[str], x: list[float], at: float) -> float | None:
    """Return the mean over some sets at one place of a curve."""
    if at not in x:
        return None
    if tuple(names) == SEVEN and "AVG" in scores:
        return scores["AVG"][x.index(at)]
    if not all(name in scores for name in names):
        return None
    return float(np.mean([scores[name][x.index(at)] for name in names]))
