"""Whether rank vectors help here, and what to use: in words, with the uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankencoder.report.choice_check import (
    Check,
    caveats,
    check_choice,
    chosen_sets,
    describe_check,
    is_own_form,
)
from rankencoder.report.document import Cell, Group, Section, Table, Text, Verdict
from rankencoder.report.encoder_views import View
from rankencoder.report.formatting import NOTHING, clean, listed, number, plural, points
from rankencoder.report.gains_section import Gain

_SHOWN = 5  # of the best candidates
_VERBS = {"better": "better than", "worse": "worse than", "within chance": "within chance of"}
_STATES = {
    "better": ("{} help", "{} helps"),
    "worse": ("{} make it worse", "{} makes it worse"),
    "within chance": ("{} are not shown to help", "{} is not shown to help"),
    "mixed": ("{} do not do the same on all sets", "{} does not do the same on all sets"),
}


def verdict_section(views: Sequence[View], gains: Sequence[Gain], over_first: Sequence[Gain]) -> Section:
    """Say for each encoder whether rank vectors help, and what to use.

    :param gains: Of ranks and blend over each encoder's own cosine.
    :param over_first: Of the other encoders over the first.
    """
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
    check = check_choice(view)
    headline, tone = _headline(choices, view, gains, check)
    tested = [_compare(gain, _alone(gain.similarity), "cosine") for gain in gains]
    reasons = [_reason(choices), " ".join([*tested, *describe_check(view, check), *caveats(view)])]
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
    sets = clean(listed(chosen_sets(view) or ["the pairs for choosing"]))
    where = "" if check is not None and check.is_better else f" on {sets}"
    by_ranks = first["form"] != "linear" and view.similarity("ranks") == "ranks"
    if not by_ranks and not is_own_form(first, view.form):
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
