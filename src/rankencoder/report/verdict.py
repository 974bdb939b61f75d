"""Whether rank vectors help here, and what to use: in words, with the uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankencoder.report.chosen import Check, caveat, check_choice, check_told, chosen_sets, is_own_form
from rankencoder.report.document import Block, Cell, Group, Section, Table, Text, Verdict
from rankencoder.report.formatting import NOTHING, clean, listed, number, plural, points

if TYPE_CHECKING:
    from rankencoder.report.gains import Gain
    from rankencoder.report.views import View

_SHOWN = 5  # of the best candidates
_VERBS = {"better": "better than", "worse": "worse than", "within chance": "within chance of"}


def verdict_section(views: Sequence[View], gains: Sequence[Gain], over_first: Sequence[Gain]) -> Section:
    """Say for each encoder whether rank vectors help, and what to use.

    :param gains: Of ranks and blend over each encoder's own cosine.
    :param over_first: Of the other encoders over the first.
    """
    blocks: list[Block] = []
    for view in views:
        own = [gain for gain in gains if gain.view is view]
        blocks.append(_verdict(view, own))
        blocks += [_candidates(view, choice) for choice in view.parts("choice")[:1] if choice.get("results")]
    if over_first:
        text = "Model against model, by each one’s cosine and blend:"
        blocks.append(Text(text, [_compared(gain) for gain in over_first]))
    lead = (
        "Does ranking a reference corpus make this encoder’s similarities better than plain cosine, and what "
        "should be used? What to use is chosen on pairs for choosing, by cross-validation. Points are of "
        "Spearman’s correlation with human judgements, ×100."
    )
    return Section("verdict", "The verdict", lead, blocks)


def _verdict(view: View, gains: Sequence[Gain]) -> Verdict:
    if not view.rows:
        text = "Its pairs were not scored: `rankencoder evaluate MODEL --task sts` does it."
        return Verdict(view.about, "Nothing was measured.", [text], "open")
    if not view.is_ranked:
        text = (
            "This encoder has no reference corpus, so only its cosine was scored. "
            "`rankencoder evaluate MODEL --corpus sentences.txt` measures what rank vectors make of it."
        )
        return Verdict(view.about, "Rank vectors were not measured.", [text], "open")
    choices = view.parts("choice")
    check = check_choice(view)
    headline, tone = _headline(choices, view, gains, check)
    tested = [*(_tested(gain) for gain in gains), *check_told(view, check), *caveat(view)]
    told = [_chosen_text(choices), " ".join(tested)]
    told += [f"Without labels: {clean(advice['sentence'])}" for advice in view.parts("advice")[:1]]
    if tone == "gain":
        told.append("`rankencoder tune MODEL --dev pairs.tsv -o tuned` writes an encoder that uses it.")
    return Verdict(view.about, headline, [part for part in told if part], tone)


def _candidates(view: View, choice: dict[str, Any]) -> Table:
    """Return plain cosine and the best of what else was tried on the pairs for choosing."""
    ordered = sorted(choice["results"], key=lambda one: -one["spearman"])
    plain = [one for one in ordered if one["rank_weight"] == 0]
    ranks = [one for one in ordered if one["form"] in ("exact", "compact")]
    wanted = [*plain, *ordered[:_SHOWN], *ranks[:1], *(one for one in ranks if one["rank_weight"] == 1)]
    lines = []
    for one in (one for one in ordered if one in wanted):
        gain = [number(100 * one["gain"][key], signed=True) for key in ("value", "low", "high")]
        interval = f"{gain[1]} to {gain[2]}" if one not in plain else NOTHING
        cells = (number(100 * one["spearman"]), gain[0], interval, str(one["folds"]))
        lines.append((clean(one["name"]), [Cell(text) for text in cells]))
    caption = f"What was tried{'' if view.is_alone else f', {view.name}'}{view.run}: the best of "
    caption += f"{len(ordered)} similarities on {clean(listed(choice['pairs']))}"
    notes = [
        "Gains over plain cosine on the very pairs that were chosen on; the intervals hold for all of them "
        f"at once. Folds: how many of the {choice['folds']} chose it."
    ]
    head = ["similarity", "Spearman ×100", "gain", "95% interval", "folds"]
    return Table(caption, head, [Group("", lines)], notes, folded=True)


_STATES = {
    "better": ("{} help", "{} helps"),
    "worse": ("{} make it worse", "{} makes it worse"),
    "within chance": ("{} are not shown to help", "{} is not shown to help"),
    "mixed": ("{} do not do the same on all sets", "{} does not do the same on all sets"),
}


def _headline(
    choices: Sequence[dict[str, Any]], view: View, gains: Sequence[Gain], check: Check | None
) -> tuple[str, str]:
    """Return in a sentence whether ranks help and what to use, and the tone."""
    state = _state(gains)
    helps = f"{_said(state, view)} here"
    chosen = [choice["chosen"] for choice in choices if "chosen" in choice]
    if not chosen:
        return f"{helps}. Nothing was chosen yet.", "open"
    names = {clean(one["name"]) for one in chosen}
    if len(names) > 1:
        return f"{helps}; the {len(chosen)} runs disagree on what to use: {listed(sorted(names))}.", "open"
    first, name = chosen[0], names.pop()
    if first["rank_weight"] == 0:
        if state in ("better", "mixed"):
            return f"{helps}, but the pairs for choosing do not bear it out: keep plain cosine.", "keep"
        return f"{helps}: keep plain cosine.", "keep"
    if check is not None and check.is_better is False:
        return f"{helps}; {name} was chosen, but does not do better on {clean(check.called)}.", "open"
    sets = clean(listed(chosen_sets(view) or ["the pairs for choosing"]))
    where = "" if check is not None and check.is_better else f" on {sets}"
    if not _is_of_ranks(first, view):
        return f"{helps}; {name} {'did best' if state == 'better' else 'does better'}{where}.", "gain"
    if state == "better":
        return f"{helps}: use {name}.", "gain"
    if first["rank_weight"] == 1:
        return f"{helps}; {name} did best on {sets} all the same.", "open"
    return f"{_said(state, view, ' alone')} here; the blend ({name}) does better{where}.", "gain"


def _state(gains: Sequence[Gain]) -> str:
    """Return whether ranks alone are better than cosine, wherever that was measured."""
    found = {i.verdict for gain in gains if gain.kind == "ranks" for i in gain.means.values()}
    return found.pop() if len(found) == 1 else "mixed"


def _said(state: str, view: View, alone: str = "") -> str:
    many, one = _STATES[state]
    return (many if view.similarity("ranks") == "ranks" else one).format(view.subject + alone)


def _is_of_ranks(chosen: dict[str, Any], view: View) -> bool:
    """Say whether a candidate is what the headline is about: ranks, or the present power."""
    by_ranks = chosen["form"] != "linear" and view.similarity("ranks") == "ranks"
    return by_ranks or is_own_form(chosen, view.form)


def _chosen_text(choices: Sequence[dict[str, Any]]) -> str:
    if not choices:
        return (
            "Which similarity to use was not chosen, for want of pairs to choose on: "
            "`rankencoder evaluate MODEL --task choice` does it, on STS-B dev or, with `--dev pairs.tsv`, on "
            "your own pairs. To pick the best figure of the test sets below would be to read off the answer."
        )
    if len(choices) == 1:
        return clean(choices[0]["sentence"])
    names = [clean(choice.get("chosen", {}).get("name", "nothing")) for choice in choices]
    counted = listed(f"{name} ({names.count(name)})" for name in dict.fromkeys(names))
    return f"Chosen in {plural(len(names), 'run')}: {counted}. Of the first: {clean(choices[0]['sentence'])}"


def _tested(gain: Gain) -> str:
    """Tell a gain over cosine on the sets it is averaged over."""
    name = _subject(gain.view.similarity(gain.kind))
    told = [
        f"On {called}, {name} is {_VERBS[interval.verdict]} cosine: {points(interval)}."
        for called, interval in gain.means.items()
    ]
    return " ".join(told)


def _subject(similarity: str) -> str:
    if similarity.startswith("blend"):
        return f"the blend at rank weight {similarity.removeprefix('blend').strip()}"
    return "rank similarity alone" if similarity == "ranks" else f"{similarity} alone"


def _compared(gain: Gain) -> str:
    name = f"{gain.view.name}, {gain.view.similarity(gain.kind)}"
    told = [
        f"On {called}, {name} is {_VERBS[interval.verdict]} {gain.over}: {points(interval)}."
        for called, interval in gain.means.items()
    ]
    return " ".join(told)
