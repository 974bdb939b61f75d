"""Compare two or three sentences by cosine, by ranks and by their blend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from rankencoder.errors import InputError
from rankencoder.explain import EncodedSentence, Explanation, Neighbor, explain_pair
from rankencoder.explorer.explorer_state import ExplorerState


class Line(NamedTuple):
    """A similarity of a pair ("base", "ranks" or "blend"), with its meaning and P(same) if known."""

    kind: str
    name: str
    value: float
    meaning: str
    same: str = ""


class ComparedPair(NamedTuple):
    """A pair of sentences."""

    a: str
    b: str
    explanation: Explanation
    lines: list[Line]


class Near(NamedTuple):
    """A reference sentence near a sentence, and its rank for each other sentence near it."""

    neighbor: Neighbor
    also: list[tuple[str, int]]


@dataclass(frozen=True)
class Comparison:
    """The comparison of up to three sentences.

    :param columns: The nearest reference sentences of each.
    :param finding: Whether cosine, ranks and their blend agree on the order of three pairs.
    :param hints: Advice for the user, if something is missing.
    """

    pairs: list[ComparedPair] = field(default_factory=list)
    columns: dict[str, list[Near]] = field(default_factory=dict)
    finding: str = ""
    hints: list[str] = field(default_factory=list)


def compare(state: ExplorerState, sentences: Sequence[str], rank_weight: float | None, k: int) -> Comparison:
    """Compare up to three sentences. Skips those that are empty or too long, with a hint.

    :param rank_weight: λ of Eq. 7, in place of the model's; None if the input is empty.
    :param k: Nearest neighbors of each to show.
    """
    if rank_weight is None or not 0 <= rank_weight <= 1:
        return Comparison(hints=["The rank weight must be between 0 and 1."])
    usable: dict[str, EncodedSentence] = {}
    hints: list[str] = []
    for letter, sentence in zip("ABC", sentences, strict=False):
        if text := (sentence or "").strip():
            try:
                usable[letter] = state.describe(text)
            except InputError as error:
                hints.append(f"Sentence {letter} cannot be encoded: {error}.")
    if len(usable) + len(hints) < 2:
        hints.append("Type two sentences to compare them." if not usable else "Type a second sentence.")
    weight = round(rank_weight, 4)
    pairs = [_compare_pair(state, a, b, usable, weight, k) for a, b in combinations(usable, 2)]
    return Comparison(pairs, _columns(usable, k), _finding(pairs), hints)


def _compare_pair(
    state: ExplorerState, a: str, b: str, of: dict[str, EncodedSentence], weight: float, k: int
) -> ComparedPair:
    explanation = explain_pair(of[a], of[b], weight, k)
    calibration = state.pairs.calibration
    kinds = (
        ("base", "cosine", explanation.cosine, 0.0),
        ("ranks", state.rank_name, explanation.rank_similarity, 1.0),
        ("blend", f"blend, λ {weight:.2f}", explanation.similarity, weight),
    )
    lines = [Line(kind, name, value, calibration(at).describe(value)) for kind, name, value, at in kinds]
    if state.curve is not None:
        own = state.model.rank_weight
        same = f"P(same) {state.curve.p_same(explanation.similarity):.2f}"
        is_own = abs(weight - own) < 0.0051  # the slider moves by 0.01
        lines[-1] = lines[-1]._replace(same=same if is_own else f"P(same) is known at λ {own:g} only")
    return ComparedPair(a, b, explanation, lines)


def _columns(of: dict[str, EncodedSentence], k: int) -> dict[str, list[Near]]:
    near = {letter: found.neighbors[:k] for letter, found in of.items()}
    ranks = {letter: {n.sentence: n.rank for n in found} for letter, found in near.items()}
    return {
        letter: [
            Near(n, [(o, at[n.sentence]) for o, at in ranks.items() if o != letter and n.sentence in at])
            for n in found
        ]
        for letter, found in near.items()
    }


def _finding(pairs: list[ComparedPair]) -> str:
    if len(pairs) < 2:
        return ""
    orders = {}
    for lines in zip(*(pair.lines for pair in pairs), strict=True):
        ordered = sorted(range(len(pairs)), key=lambda i: -lines[i].value)
        orders[lines[0].name] = ", ".join(f"{pairs[i].a}–{pairs[i].b}" for i in ordered)
    if len(set(orders.values())) == 1:
        return f"All agree on the order of the pairs, most similar first: {orders['cosine']}."
    told = "; ".join(f"by {name}: {order}" for name, order in orders.items())
    return f"They disagree. Most similar first, {told}."
