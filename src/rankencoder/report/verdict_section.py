"""Whether rank vectors help here, and what to use: in words, with the uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rankencoder.evaluation.result_rows import averaged_sets
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.report.curves_section import mean_curves
from rankencoder.report.document import Section, Verdict
from rankencoder.report.encoder_views import View
from rankencoder.report.formatting import clean, listed, number, plural, points
from rankencoder.report.gains_section import Gain

_SHARED = (
    "STS-B dev was drawn from the same years as STS12–16 and shares pairs with them, as everywhere in the "
    "field, so scores there are no independent check."
)
_VERBS = {"better": "better than", "worse": "worse than", "within chance": "within chance of"}
_STATES = {
    "better": "help",
    "worse": "make it worse",
    "within chance": "are not shown to help",
    "mixed": "have mixed effects",
}


class Check(NamedTuple):
    """The scores of what was chosen on sets that it was not chosen on, each the mean over runs."""

    name: str
    sets: str
    score: float
    cosine: float


def verdict_section(views: Sequence[View], gains: Sequence[Gain], over_first: Sequence[Gain]) -> Section:
    """Say for each encoder whether rank vectors help, and what to use."""
    verdicts = []
    for view in views:
        own, others = ([gain for gain in some if gain.view is view] for some in (gains, over_first))
        verdicts.append(_verdict(view, own, " ".join(map(_compare, others))))
    return Section("verdict", verdicts)


def _verdict(view: View, gains: Sequence[Gain], against: str) -> Verdict:
    if not view.rows:
        return Verdict(view.about, "Nothing was measured.", ["Its pairs were not scored."], advice="score")
    if view.is_ranked:
        choices, check = view.parts("choice"), _check_choice(view)
        headline, tone = _headline(choices, view, gains, check)
        tested = [*map(_compare, gains), *_describe_check(view, check), *_caveats(view)]
        reasons = [_reason(choices), " ".join(tested)]
        reasons += [f"Without labels: {clean(advice['sentence'])}" for advice in view.parts("advice")[:1]]
        advice = "choose" if not choices else "tune" if tone == "gain" else ""
    else:
        headline, tone, advice = "Rank vectors were not measured.", "open", "corpus"
        reasons = ["This encoder has no reference corpus, so only its cosine was scored."]
    return Verdict(view.about, headline, [*reasons, *([against] if against else [])], tone, advice)


def _compare(gain: Gain) -> str:
    """Say how a similarity compares with another on the sets that the gain is averaged over."""
    name = {"ranks": "rank similarity alone", "cosine": "its cosine"}.get(gain.similarity, gain.similarity)
    if gain.kind == "blend":
        name = f"the blend at rank weight {name.removeprefix('blend').strip()}"
    return " ".join(
        f"On {called}, {name} is {_VERBS[interval.verdict]} {gain.over}: {points(interval)}."
        for called, interval in gain.means.items()
    )


def _reason(choices: Sequence[dict[str, Any]]) -> str:
    if not choices:
        return "No similarity was chosen: there were no pairs to choose on."
    return f"{'The first run: ' if len(choices) > 1 else ''}{clean(choices[0]['sentence'])}"


def _headline(
    choices: Sequence[dict[str, Any]], view: View, gains: Sequence[Gain], check: Check | None
) -> tuple[str, str]:
    """Return in a sentence whether ranks help and what to use, and the tone."""
    found = {mean.verdict for gain in gains if gain.kind == "ranks" for mean in gain.means.values()}
    state = found.pop() if len(found) == 1 else "mixed"
    vectors = f"{view.vectors[:1].upper()}{view.vectors[1:]}"
    helps = f"{vectors} {_STATES[state]} here"
    chosen = [choice["chosen"] for choice in choices if "chosen" in choice]
    if not chosen:
        return f"{helps}. Nothing was chosen yet.", "open"
    names = {clean(one["name"]) for one in chosen}
    if len(names) > 1:
        return f"{helps}; the {len(chosen)} runs disagree on what to use: {listed(sorted(names))}.", "open"
    first, name = chosen[0], names.pop()
    if first["rank_weight"] == 0:
        but = ", but not on the pairs for choosing" if state in ("better", "mixed") else ""
        return f"{helps}{but}: keep plain cosine.", "keep"
    if check is not None and check.score <= check.cosine:
        return f"{helps}; {name} was chosen, but does not do better on {check.sets}.", "open"
    sets = clean(listed(_chosen_sets(view)))
    where = f" on {sets}" if check is None else ""
    by_ranks = first["form"] != "linear" and view.similarity("ranks") == "ranks"
    if not by_ranks and not _is_own_form(view, first):
        return f"{helps}; {name} {'did best' if state == 'better' else 'does better'}{where}.", "gain"
    if state == "better":
        return f"{helps}: use {name}.", "gain"
    if first["rank_weight"] == 1:
        return f"{helps}; {name} did best on {sets} all the same.", "open"
    return f"{vectors} alone {_STATES[state]} here; the blend ({name}) does better{where}.", "gain"


def _check_choice(view: View) -> Check | None:
    """Look up in the curves how what all runs chose does on the sets that were not chosen on."""
    chosen = [choice["chosen"] for choice in view.parts("choice") if "chosen" in choice]
    tests = [name for name in view.rows["cosine"].golds if name not in (*DEV, *_chosen_sets(view))]
    curves = view.parts("curves")
    if not chosen or not tests or not curves or any(one != chosen[0] for one in chosen):
        return None
    name, settings, weight = (chosen[0][key] for key in ("name", "settings", "rank_weight"))
    called, names = next(iter(averaged_sets(tests).items()))
    columns = ["AVG"] if tuple(names) == SEVEN else names
    weights = mean_curves(curves, "rank-weight", "scores")
    if _is_own_form(view, chosen[0]):
        x, at, scores = curves[0]["rank-weight"]["x"], weight, weights
    elif chosen[0]["form"] == "linear" and weight == 1:
        how = "centred" if settings["center"] else "plain"
        x, at, scores = curves[0]["power"]["x"], settings["power"], mean_curves(curves, "power", how)
    else:
        return None
    if at not in x or not all(of in scores for of in columns):
        return None
    score = np.mean([scores[of][x.index(at)] for of in columns])
    cosine = np.mean([weights[of][0] for of in columns])
    return Check(clean(name), clean(called), float(score), float(cosine))


def _describe_check(view: View, check: Check | None) -> list[str]:
    """Say how the chosen similarity does on sets that were not chosen on."""
    if check is None:
        return []
    runs = f" (mean of {plural(len(view.members), 'run')})" if len(view.members) > 1 else ""
    but = "" if check.score > check.cosine else ", so it is not shown to do better there"
    scores = f"{number(check.score)}{runs} against {number(check.cosine)} of cosine"
    return [f"On {check.sets}, {check.name} scores {scores}{but}."]


def _caveats(view: View) -> list[str]:
    """Say where the pairs that were chosen on are not apart from those that are tested on."""
    chosen_on = _chosen_sets(view)
    scored = {name for row in view.rows.values() for name in row.golds}
    found = [_SHARED] if "STS-B dev" in chosen_on and scored & set(SEVEN) - {"SICK-R"} else []
    own = [clean(name) for name in chosen_on if name not in DEV and name in scored]
    if own:
        found.append(f"The choice was made on {listed(own)}: figures on these pairs do not check it.")
    return found


def _chosen_sets(view: View) -> list[str]:
    """Return the sets that the choice was made on."""
    return list(dict.fromkeys(name for choice in view.parts("choice") for name in choice.get("pairs", {})))


def _is_own_form(view: View, chosen: dict[str, Any]) -> bool:
    """Say whether what was chosen is by the form that the encoder has."""
    form = view.subject["form"]
    return (chosen["form"], chosen["settings"]) == (form["name"], form["settings"])
