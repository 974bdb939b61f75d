"""What the first tab says: two or three sentences by cosine, by ranks and by the blend of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from rankencoder.errors import InputError
from rankencoder.explain import Described, Explanation, Neighbor, explain_described
from rankencoder.explorer.explorer_state import MOST_NEIGHBORS, ExplorerState

_SHOWN = 0.0005  # differences below this are not to be seen in the numbers
_ALIKE = 2.0  # within this factor, two shares of random pairs say the same


@dataclass(frozen=True)
class Line:
    """One similarity of a pair ("base", "ranks" or "blend"), and what it means."""

    kind: str
    name: str
    value: float
    meaning: str


@dataclass(frozen=True)
class ComparedPair:
    """A pair of sentences."""

    a: str
    b: str
    explanation: Explanation
    lines: list[Line]


@dataclass(frozen=True)
class Near:
    """A reference sentence near to a sentence.

    :param is_itself: Whether it is that very sentence, which a reference corpus may hold too.
    :param also: The other sentences that it is near to, and its rank there.
    """

    neighbor: Neighbor
    is_itself: bool
    also: list[tuple[str, int]]


@dataclass(frozen=True)
class Column:
    """A sentence, and the reference sentences nearest to it."""

    letter: str
    near: list[Near]


@dataclass(frozen=True)
class Comparison:
    """What is to be seen of some sentences.

    :param finding: Where cosine and ranks agree, and where they do not.
    :param hints: What the person may do next, if there is nothing or not all to see.
    """

    pairs: list[ComparedPair] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    finding: str = ""
    hints: list[str] = field(default_factory=list)


def compare(
    state: ExplorerState, sentences: Sequence[str], rank_weight: float | None, k: int | None
) -> Comparison:
    """Compare up to three sentences. Those that are empty or too long are left out, with a hint.

    :param rank_weight: λ of Eq. 7, in place of the model's; None if a person has emptied its box.
    :param k: How many nearest neighbours of each to show.
    """
    if rank_weight is None or not 0 <= rank_weight <= 1 or not 1 <= (k or 0) <= MOST_NEIGHBORS:
        return Comparison(hints=[f"Rank weight is from 0 to 1, neighbours from 1 to {MOST_NEIGHBORS}."])
    weight, k = round(rank_weight, 4), int(k or 0)
    usable: dict[str, Described] = {}
    refused: list[str] = []
    hints: list[str] = []
    for letter, sentence in zip("ABC", sentences, strict=False):
        text = (sentence or "").strip()
        if not text:
            continue
        try:
            usable[letter] = state.describe(text)
        except InputError as error:
            refused.append(f"Sentence {letter} cannot be encoded: {error}.")
            continue
        number, longest = state.count_tokens(text)
        if number > longest:
            hints.append(
                f"The encoder reads the first {longest:,.0f} of the {number:,} tokens of sentence {letter}."
            )
    if len(usable) + len(refused) < 2:
        hints.append("Type two sentences to compare them." if not usable else "Type a second sentence.")
    pairs = [_compare_pair(state, a, b, usable, weight, k) for a, b in combinations(usable, 2)]
    return Comparison(pairs, _columns(usable, k), _finding(state, pairs, weight), refused + hints)


def _compare_pair(
    state: ExplorerState, a: str, b: str, of: dict[str, Described], weight: float, k: int
) -> ComparedPair:
    explanation = explain_described(of[a], of[b], weight, k)
    calibration = state.pairs.calibration
    kinds = (
        ("base", "cosine", explanation.cosine, 0.0),
        ("ranks", state.rank_name, explanation.rank_similarity, 1.0),
        ("blend", f"blend, λ {weight:.2f}", explanation.similarity, weight),
    )
    lines = [Line(kind, name, value, calibration(at).describe(value)) for kind, name, value, at in kinds]
    return ComparedPair(a, b, explanation, lines)


def _columns(of: dict[str, Described], k: int) -> list[Column]:
    ranks = {letter: {n.sentence: n.rank for n in found.neighbors[:k]} for letter, found in of.items()}
    columns = []
    for letter, found in of.items():
        others = {other: places for other, places in ranks.items() if other != letter}
        near = []
        for n in found.neighbors[:k]:
            also = [(other, places[n.sentence]) for other, places in others.items() if n.sentence in places]
            near.append(Near(n, n.sentence == found.sentence, also))
        columns.append(Column(letter, near))
    return columns


def _finding(state: ExplorerState, pairs: list[ComparedPair], weight: float) -> str:
    name = "ranks" if state.model.form.label == "ranks" else state.rank_name
    if len(pairs) == 1:
        return _pair_finding(state, pairs[0].explanation, name)
    return _order_finding(pairs, name, weight) if pairs else ""


def _pair_finding(state: ExplorerState, explanation: Explanation, name: str) -> str:
    by_cosine = state.pairs.calibration(0.0).percentile(explanation.cosine)
    by_ranks = state.pairs.calibration(1.0).percentile(explanation.rank_similarity)
    ratio = (100 - by_cosine) / (100 - by_ranks)  # of the random pairs that are at least as similar
    if 1 / _ALIKE <= ratio <= _ALIKE:
        return f"Cosine and {name} see this pair alike."
    return f"Cosine and {name} differ: this pair is more similar by {name if ratio > 1 else 'cosine'}."


def _order_finding(pairs: list[ComparedPair], name: str, weight: float) -> str:
    orders, level = {}, True
    for place, kind in enumerate(("cosine", name, "blend")):
        ordered = sorted(pairs, key=lambda pair: -pair.lines[place].value)
        orders[kind] = ", ".join(f"{pair.a}–{pair.b}" for pair in ordered)
        level = level and ordered[0].lines[place].value - ordered[-1].lines[place].value < _SHOWN
    if level:
        return "All pairs are equally similar."
    if orders["cosine"] == orders[name]:
        order = orders["cosine"]
        return f"Cosine and {name} agree on the order of the pairs, most similar first: {order}."
    sides = [kind for kind in ("cosine", name) if orders[kind] == orders["blend"]]
    blend = f"goes with {sides[0]}" if sides else f"has an order of its own: {orders['blend']}"
    return (
        f"They disagree. Most similar first, by cosine: {orders['cosine']}; by {name}: {orders[name]}. "
        f"The blend at λ {weight:.2f} {blend}."
    )
