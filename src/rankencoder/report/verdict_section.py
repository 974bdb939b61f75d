"""Whether rank vectors help here, and what to use: in words, with the uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankencoder.evaluation.result_rows import averaged_sets
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.report.document import Cell, Group, Section, Table, Text, Verdict
from rankencoder.report.encoder_views import View
from rankencoder.report.formatting import NOTHING, clean, listed, number, plural, points
from rankencoder.report.gains_section import Gain

_SHARED = (
    "STS-B dev was drawn from the same years as STS12–16 and shares pairs with them, as everywhere in the "
    "field, so scores there are no independent check."
)
_SHOWN = 5  # of the best candidates
_VERBS = {"better": "better than", "worse": "worse than", "within chance": "within chance of"}
_STATES = {
    "better": ("{} help", "{} helps"),
    "worse": ("{} make it worse", "{} makes it worse"),
    "within chance": ("{} are not shown to help", "{} is not shown to help"),
    "mixed": ("{} do not do the same on all sets", "{} does not do the same on all sets"),
}


def verdict_section(views: Sequence[View], gains: Sequence[Gain], over_first: Sequence[Gain]) -> Section:
    """Say for each encoder whether rank vectors help, and what to use."""
    blocks: list[Verdict | Table | Text] = []
    for view in views:
        blocks.append(_verdict(view, [gain for gain in gains if gain.view is view]))
        blocks += [_candidates(view, choice) for choice in view.parts("choice")[:1] if choice.get("results")]
    if over_first:
        compared = [_compare(gain, f"{gain.view.name}, {gain.similarity}", gain.over) for gain in over_first]
        blocks.append(Text("Model against model, by each one’s cosine and blend:", compared))
    return Section("verdict", blocks)


def _verdict(view: View, gains: Sequence[Gain]) -> Verdict:
    if not view.rows:
        return Verdict(view.about, "Nothing was measured.", ["Its pairs were not scored."], "open", "score")
    if not view.is_ranked:
        text = "This encoder has no reference corpus, so only its cosine was scored."
        return Verdict(view.about, "Rank vectors were not measured.", [text], "open", "corpus")
    choices = view.parts("choice")
    check = _check_choice(view)
    headline, tone = _headline(choices, view, gains, check)
    tested = [_compare(gain, _alone(gain.similarity), "cosine") for gain in gains]
    reasons = [_reason(choices), " ".join([*tested, *_describe_check(view, check), *_caveats(view)])]
    reasons += [f"Without labels: {clean(advice['sentence'])}" for advice in view.parts("advice")[:1]]
    advice = "choose" if not choices else "tune" if tone == "gain" else ""
    return Verdict(view.about, headline, [reason for reason in reasons if reason], tone, advice)


def _compare(gain: Gain, name: str, over: str) -> str:
    """Say how a similarity compares with another on the sets that the gain is averaged over."""
    return " ".join(
        f"On {called}, {name} is {_VERBS[interval.verdict]} {over}: {points(interval)}."
        for called, interval in gain.means.items()
    )


def _alone(similarity: str) -> str:
    if similarity.startswith("blend"):
        return f"the blend at rank weight {similarity.removeprefix('blend').strip()}"
    return "rank similarity alone" if similarity == "ranks" else f"{similarity} alone"


def _reason(choices: Sequence[dict[str, Any]]) -> str:
    if not choices:
        return "Which similarity to use was not chosen, for want of pairs to choose on."
    if len(choices) == 1:
        return clean(choices[0]["sentence"])
    names = [clean(choice.get("chosen", {}).get("name", "nothing")) for choice in choices]
    counted = listed(f"{name} ({names.count(name)})" for name in dict.fromkeys(names))
    return f"Chosen in {plural(len(names), 'run')}: {counted}. Of the first: {clean(choices[0]['sentence'])}"


def _headline(
    choices: Sequence[dict[str, Any]], view: View, gains: Sequence[Gain], check: Check | None
) -> tuple[str, str]:
    """Return in a sentence whether ranks help and what to use, and the tone."""
    state = _state(gains)
    helps = f"{_say(state, view)} here"
    chosen = [choice["chosen"] for choice in choices if "chosen" in choice]
    if not chosen:
        return f"{helps}. Nothing was chosen yet.", "open"
    names = {clean(one["name"]) for one in chosen}
    if len(names) > 1:
        return f"{helps}; the {len(chosen)} runs disagree on what to use: {listed(sorted(names))}.", "open"
    first, name = chosen[0], names.pop()
    if first["rank_weight"] == 0:
        but = ", but the pairs for choosing do not bear it out" if state in ("better", "mixed") else ""
        return f"{helps}{but}: keep plain cosine.", "keep"
    if check is not None and check.is_better is False:
        return f"{helps}; {name} was chosen, but does not do better on {clean(check.called)}.", "open"
    sets = clean(listed(_chosen_sets(view) or ["the pairs for choosing"]))
    where = "" if check is not None and check.is_better else f" on {sets}"
    by_ranks = first["form"] != "linear" and view.similarity("ranks") == "ranks"
    if not by_ranks and not _is_own_form(first, view.form):
        return f"{helps}; {name} {'did best' if state == 'better' else 'does better'}{where}.", "gain"
    if state == "better":
        return f"{helps}: use {name}.", "gain"
    if first["rank_weight"] == 1:
        return f"{helps}; {name} did best on {sets} all the same.", "open"
    return f"{_say(state, view, ' alone')} here; the blend ({name}) does better{where}.", "gain"


def _state(gains: Sequence[Gain]) -> str:
    """Return whether ranks alone are better than cosine, wherever that was measured."""
    found = {i.verdict for gain in gains if gain.kind == "ranks" for i in gain.means.values()}
    return found.pop() if len(found) == 1 else "mixed"


def _say(state: str, view: View, alone: str = "") -> str:
    many, one = _STATES[state]
    name = view.similarity("ranks")
    if name == "ranks":
        return many.format(f"Rank vectors{alone}")
    return one.format(f"{name[:1].upper()}{name[1:]}{alone}")


def _candidates(view: View, choice: dict[str, Any]) -> Table:
    """Return plain cosine and the best of what else was tried on the pairs for choosing."""
    ordered = sorted(choice["results"], key=lambda one: -one["spearman"])
    plain = [one for one in ordered if one["rank_weight"] == 0]
    ranks = [one for one in ordered if one["form"] in ("exact", "compact")]
    wanted = [*plain, *ordered[:_SHOWN], *ranks[:1], *(one for one in ranks if one["rank_weight"] == 1)]
    lines = []
    for one in (one for one in ordered if one in wanted):
        gain, low, high = (number(100 * one["gain"][key], signed=True) for key in ("value", "low", "high"))
        interval = f"{low} to {high}" if one not in plain else NOTHING
        cells = (number(100 * one["spearman"]), gain, interval, str(one["folds"]))
        lines.append((clean(one["name"]), [Cell(text) for text in cells]))
    caption = f"What was tried{'' if view.is_alone else f', {view.name}'}{view.run}: the best of "
    caption += f"{len(ordered)} similarities on {clean(listed(choice['pairs']))}"
    note = (
        "Gains over plain cosine on the very pairs that were chosen on; the intervals hold for all of them "
        f"at once. Folds: how many of the {choice['folds']} chose it."
    )
    head = ["similarity", "Spearman ×100", "gain", "95% interval", "folds"]
    return Table(caption, head, [Group("", lines)], [note], folded=True)


@dataclass(frozen=True)
class Check:
    """The scores of what was chosen on sets that were not chosen on, each the mean over runs."""

    called: str  # the sets, in words
    sets: int
    score: float | None = None  # None where it was not measured
    cosine: float = 0.0
    runs: int = 1

    @property
    def is_better(self) -> bool | None:
        """Whether it does better than cosine, where that is known."""
        return None if self.score is None else self.score > self.cosine


def _check_choice(view: View) -> Check | None:
    """Look up what was chosen on the sets that were not chosen on; None where there is nothing to look up."""
    runs = [member for member in view.members if "chosen" in view.part_of(member, "choice")]
    if all(view.part_of(member, "choice")["chosen"]["rank_weight"] == 0 for member in runs):
        return None
    row = view.rows.get("cosine")
    tests = [n for n in row.golds if n not in (*DEV, *_chosen_sets(view))] if row is not None else []
    if not tests:
        return None
    called, names = next(iter(averaged_sets(tests).items()))
    scores = [_scores(view, member, names) for member in runs]
    known = [pair for pair in scores if pair is not None]
    if len(known) < len(scores):
        return Check(called, len(names))
    score, cosine = (float(value) for value in np.mean(known, axis=0))
    return Check(called, len(names), score, cosine, len(known))


def _describe_check(view: View, check: Check | None) -> list[str]:
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


def _is_own_form(chosen: dict[str, Any], form: dict[str, Any] | None) -> bool:
    """Say whether a candidate is by the form that the encoder has."""
    return form is not None and (chosen["form"], chosen["settings"]) == (form["name"], form["settings"])


def _scores(view: View, member: dict[str, Any], names: Sequence[str]) -> tuple[float, float] | None:
    """Return one run's mean score on some sets, and that of cosine; None where its curves do not hold it."""
    chosen, curves = view.part_of(member, "choice")["chosen"], view.part_of(member, "curves")
    if not curves:
        return None
    scores, x, at = curves["rank-weight"]["scores"], curves["rank-weight"]["x"], chosen["rank_weight"]
    cosine = _average(scores, names, x, 0)
    if at == 0 or _is_own_form(chosen, view.subject_of(member).get("form")):
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
