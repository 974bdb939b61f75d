"""What the first tab says: two or three sentences by cosine, by ranks and by the blend of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from rankencoder.blend import check_rank_weight
from rankencoder.errors import InputError
from rankencoder.explain import Described, Explanation, Neighbor, explain_described
from rankencoder.explorer.explorer_state import MOST_NEIGHBORS, Explored
from rankencoder.io.corpus import LONGEST
from rankencoder.report.formatting import listed, number
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
class PairSeen:
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

    :param told: Where cosine and ranks agree, and where they do not.
    :param wanted: What the person may do next, where there is nothing or not all to see.
    """

    pairs: list[PairSeen] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)


def compare(explored: Explored, sentences: Sequence[str], rank_weight: float, k: int) -> Comparison:
    """Compare sentences with each other; those that are empty or too long are left out, and told of.

    :param sentences: At most three.
    :param rank_weight: λ of Eq. 7, in place of the model's.
    :param k: How many nearest neighbours of each to show.
    """
    usable: dict[str, Described] = {}
    wanted: list[str] = []
    refused: list[str] = []
    try:
        weight = round(check_rank_weight(rank_weight), 4)
        k = _checked_k(k)
    except (InputError, TypeError):
        return Comparison(wanted=[f"Rank weight is from 0 to 1, neighbours from 1 to {MOST_NEIGHBORS}."])
    for letter, text in zip(LETTERS, sentences, strict=False):
        try:
            if (text or "").strip():
                usable[letter] = explored.describe(text.strip())
                wanted += _cut(letter, explored.unread(text.strip()))
        except InputError as error:
            refused.append(_refusal(letter, text, error))
    if len(usable) + len(refused) < 2:
        wanted.append("Type two sentences to compare them." if not usable else "Type a second sentence.")
    pairs = [_seen(explored, a, b, usable, weight, k) for a, b in combinations(usable, 2)]
    return Comparison(pairs, _columns(usable, k), _told(explored, pairs, weight), refused + wanted)


def _checked_k(k: int) -> int:
    if not 1 <= k <= MOST_NEIGHBORS:
        raise InputError(f"k must be from 1 to {MOST_NEIGHBORS}")
    return int(k)


def _refusal(letter: str, text: str, error: InputError) -> str:
    if len(text.strip()) > LONGEST:
        return (
            f"Sentence {letter} has {len(text.strip()):,} characters, and {LONGEST:,} are the most. "
            "Rank vectors are of sentences: try one of them."
        )
    return f"Sentence {letter} cannot be encoded: {error}"


def _cut(letter: str, unread: tuple[int, int] | None) -> list[str]:
    if unread is None:
        return []
    number, read = unread
    return [f"The encoder reads the first {read:,} of the {number:,} tokens of sentence {letter}."]


def rank_name(explored: Explored) -> str:
    """Return what to call the similarity of the rank part, which is not always one of ranks."""
    label = explored.model.form.label
    return "rank similarity" if label == "ranks" else label.replace("-", "−")


def _seen(explored: Explored, a: str, b: str, of: dict[str, Described], weight: float, k: int) -> PairSeen:
    explanation = explain_described(of[a], of[b], weight, k)
    calibration = explored.background().calibration
    kinds = (
        ("base", "cosine", explanation.cosine, 0.0),
        ("ranks", rank_name(explored), explanation.rank_similarity, 1.0),
        ("blend", f"blend, λ {weight:.2f}", explanation.similarity, weight),
    )
    lines = [Line(kind, name, value, calibration(at).describe(value)) for kind, name, value, at in kinds]
    return PairSeen(a, b, explanation, lines)


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


def _told(explored: Explored, pairs: list[PairSeen], weight: float) -> list[str]:
    name = "ranks" if explored.model.form.label == "ranks" else rank_name(explored)
    if len(pairs) == 1:
        return [_told_of_pair(explored, pairs[0].explanation, name)]
    if len(pairs) == 3:
        return [_told_of_order(pairs, name, weight)]
    return []


def _told_of_pair(explored: Explored, explanation: Explanation, name: str) -> str:
    calibration = explored.background().calibration
    found = ((calibration(0.0), explanation.cosine), (calibration(1.0), explanation.rank_similarity))
    by_cosine, by_ranks = (_share(of, value) for of, value in found)
    if all(of.is_above_all(value) for of, value in found):
        return f"By cosine as by {name}, no random pair is as similar."
    told = [_counted(of, value) for of, value in found]
    counted = f"{told[0][:1].upper()}{told[0][1:]} by cosine, {told[1]} by {name}."
    if max(by_cosine, by_ranks) <= _ALIKE * min(by_cosine, by_ranks):
        return f"Cosine and {name} see this pair alike: {counted}"
    closer = name if by_ranks < by_cosine else "cosine"
    makes = "make" if closer == "ranks" else "makes"
    return f"Cosine and {name} differ: {closer} {makes} more of this pair. {counted}"


def _told_of_order(pairs: list[PairSeen], name: str, weight: float) -> str:
    kinds = {"cosine": "cosine", name: "rank_similarity", "blend": "similarity"}
    if all(_is_level(pairs, attribute) for attribute in kinds.values()):
        return "All pairs are equally similar."
    orders = {kind: _order(pairs, attribute) for kind, attribute in kinds.items()}
    order = ", ".join(orders["cosine"])
    if orders["cosine"] == orders[name]:
        return f"Cosine and {name} agree on the order of the pairs, most similar first: {order}."
    sides = [kind for kind in ("cosine", name) if orders[kind] == orders["blend"]]
    if sides:
        blend = f"The blend at λ {number(weight)} goes with {listed(sides)}."
    else:
        blend = f"The blend at λ {number(weight)} has an order of its own: {', '.join(orders['blend'])}."
    return (
        f"They disagree. Most similar first, cosine says {order}; {name} say"
        f"{'' if name == 'ranks' else 's'} {', '.join(orders[name])}. {blend}"
    )


def _is_level(pairs: list[PairSeen], attribute: str) -> bool:
    values = [float(getattr(pair.explanation, attribute)) for pair in pairs]
    return max(values) - min(values) < _SHOWN


def _order(pairs: list[PairSeen], attribute: str) -> list[str]:
    found = sorted(pairs, key=lambda pair: -float(getattr(pair.explanation, attribute)))
    return [f"{pair.a}–{pair.b}" for pair in found]


def _share(calibration: Calibration, similarity: float) -> float:
    """Return the share of random pairs that are at least as similar; never less than can be told."""
    return max(1 - float(calibration.percentile(similarity)) / 100, 1 / calibration.pairs)


def _counted(calibration: Calibration, similarity: float) -> str:
    share = _share(calibration, similarity)
    if calibration.is_above_all(similarity):
        return "no random pair is as similar"
    if share > 0.5:
        return "most random pairs are as similar"
    return f"1 in {float(f'{1 / share:.2g}'):,.0f} random pairs is as similar"
