"""What the first tab says: two or three sentences by cosine, by ranks and by the blend of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from rankencoder.blend import check_rank_weight
from rankencoder.errors import InputError
from rankencoder.explain import Described, Explanation, Neighbor, explain_described
from rankencoder.explorer.explorer_state import MOST_NEIGHBORS, ExplorerState
from rankencoder.io.corpus import LONGEST
from rankencoder.report.formatting import number
from rankencoder.search.calibration import Calibration

LETTERS = "ABC"
_SHOWN = 0.0005  # differences below this are not to be seen in the numbers
_ALIKE = 2.0  # within this factor, two shares of random pairs say the same


@dataclass(frozen=True)
class Line:
    """One similarity of a pair, and what it means.

    :param kind: "base", "ranks" or "blend".
    """

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

    :param also: The other sentences that it is near to, and its rank there.
    :param is_itself: Whether it is that very sentence, which a reference corpus may hold too.
    """

    neighbor: Neighbor
    is_itself: bool
    also: list[tuple[str, int]]


@dataclass(frozen=True)
class Column:
    """A sentence, and the reference sentences nearest to it."""

    letter: str
    near: list[Near]

    @property
    def shared(self) -> int:
        """How many of them another sentence is near to as well."""
        return sum(bool(near.also) for near in self.near)


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


def compare(state: ExplorerState, sentences: Sequence[str], rank_weight: float, k: int) -> Comparison:
    """Compare sentences with each other. Those that are empty or too long are left out, with a hint.

    :param sentences: At most three.
    :param rank_weight: λ of Eq. 7, in place of the model's.
    :param k: How many nearest neighbours of each to show.
    """
    try:
        weight = round(check_rank_weight(rank_weight), 4)
        in_range = 1 <= k <= MOST_NEIGHBORS
    except (InputError, TypeError):
        in_range = False
    if not in_range:
        return Comparison(hints=[f"Rank weight is from 0 to 1, neighbours from 1 to {MOST_NEIGHBORS}."])
    usable: dict[str, Described] = {}
    refused: list[str] = []
    hints: list[str] = []
    for letter, text in zip(LETTERS, ((text or "").strip() for text in sentences), strict=False):
        try:
            if text:
                usable[letter] = state.describe(text)
                hints += _truncation(letter, state.truncation(text))
        except InputError as error:
            refused.append(_refusal(letter, text, error))
    if len(usable) + len(refused) < 2:
        hints.append("Type two sentences to compare them." if not usable else "Type a second sentence.")
    pairs = [_compare_pair(state, a, b, usable, weight, int(k)) for a, b in combinations(usable, 2)]
    return Comparison(pairs, _columns(usable, int(k)), _finding(state, pairs, weight), refused + hints)


def _refusal(letter: str, text: str, error: InputError) -> str:
    if len(text) > LONGEST:
        return (
            f"Sentence {letter} has {len(text):,} characters, and {LONGEST:,} are the most. "
            "Rank vectors are of sentences: try one of them."
        )
    return f"Sentence {letter} cannot be encoded: {error}"


def _truncation(letter: str, truncation: tuple[int, int] | None) -> list[str]:
    if truncation is None:
        return []
    number, read = truncation
    return [f"The encoder reads the first {read:,} of the {number:,} tokens of sentence {letter}."]


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
        near = [
            Near(n, n.sentence == found.sentence, [(other, ranks[other][n.sentence]) for other in others])
            for n in found.neighbors[:k]
            for others in [[o for o in ranks if o != letter and n.sentence in ranks[o]]]
        ]
        columns.append(Column(letter, near))
    return columns


def _finding(state: ExplorerState, pairs: list[ComparedPair], weight: float) -> str:
    """Say where cosine and ranks agree, for one pair and for three."""
    name = "ranks" if state.model.form.label == "ranks" else state.rank_name
    if len(pairs) == 1:
        return _pair_finding(state, pairs[0].explanation, name)
    return _order_finding(pairs, name, weight) if pairs else ""


def _pair_finding(state: ExplorerState, explanation: Explanation, name: str) -> str:
    calibration = state.pairs.calibration
    found = ((calibration(0.0), explanation.cosine), (calibration(1.0), explanation.rank_similarity))
    if all(of.is_above_all(value) for of, value in found):
        return f"By cosine as by {name}, no random pair is as similar."
    by_cosine, by_ranks = (_share(of, value) for of, value in found)
    first, second = (_frequency(of, value) for of, value in found)
    frequencies = f"{first[:1].upper()}{first[1:]} by cosine, {second} by {name}."
    if max(by_cosine, by_ranks) <= _ALIKE * min(by_cosine, by_ranks):
        return f"Cosine and {name} see this pair alike: {frequencies}"
    closer = name if by_ranks < by_cosine else "cosine"
    return f"Cosine and {name} differ: this pair is more similar by {closer}. {frequencies}"


def _order_finding(pairs: list[ComparedPair], name: str, weight: float) -> str:
    kinds = {"cosine": "cosine", name: "rank_similarity", "blend": "similarity"}
    if all(_is_level(pairs, attribute) for attribute in kinds.values()):
        return "All pairs are equally similar."
    orders = {kind: _order(pairs, attribute) for kind, attribute in kinds.items()}
    if orders["cosine"] == orders[name]:
        order = orders["cosine"]
        return f"Cosine and {name} agree on the order of the pairs, most similar first: {order}."
    sides = [kind for kind in ("cosine", name) if orders[kind] == orders["blend"]]
    blend = f"goes with {sides[0]}" if sides else f"has an order of its own: {orders['blend']}"
    return (
        f"They disagree. Most similar first, by cosine: {orders['cosine']}; by {name}: {orders[name]}. "
        f"The blend at λ {number(weight)} {blend}."
    )


def _is_level(pairs: list[ComparedPair], attribute: str) -> bool:
    values = [float(getattr(pair.explanation, attribute)) for pair in pairs]
    return max(values) - min(values) < _SHOWN


def _order(pairs: list[ComparedPair], attribute: str) -> str:
    found = sorted(pairs, key=lambda pair: -float(getattr(pair.explanation, attribute)))
    return ", ".join(f"{pair.a}–{pair.b}" for pair in found)


def _share(calibration: Calibration, similarity: float) -> float:
    """Return the share of random pairs that are at least as similar; never less than can be told."""
    return max(1 - float(calibration.percentile(similarity)) / 100, 1 / calibration.pairs)


def _frequency(calibration: Calibration, similarity: float) -> str:
    share = _share(calibration, similarity)
    if calibration.is_above_all(similarity):
        return "no random pair is as similar"
    if share > 0.5:
        return "most random pairs are as similar"
    return f"1 in {float(f'{1 / share:.2g}'):,.0f} random pairs is as similar"
