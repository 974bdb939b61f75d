"""Find near-duplicates within a corpus or between two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.row_files import to_json
from rankencoder.io.storage import FOUND, new_folder, read_json, read_tensors, write_tensors
from rankencoder.search.calibration import (
    SENTENCES,
    Calibration,
    default_similarity,
    parse_threshold,
    precise_threshold,
    similarity_at,
)
from rankencoder.search.index_folder import CONFIG
from rankencoder.search.records import Record, Records
from rankencoder.search.similar_pairs import Pairs, document_pairs, similar_pairs
from rankencoder.text_fit import with_tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.opening import Running

MOST = 10_000_000  # maximum number of pairs in memory
_FORMAT = 1


@dataclass
class Duplicates:
    """The near-duplicates of a corpus.

    :param candidates: The pairs of at least similarity ``floor``, for `at`.
    :param threshold: The lowest similarity of `pairs`.
    :param against: The other corpus, for pairs between two.
    """

    records: Records
    candidates: Pairs
    threshold: float
    floor: float
    calibration: Calibration
    against: Records | None = None

    @property
    def sentences(self) -> list[str]:
        """The distinct sentences of the corpus."""
        return self.records.texts

    @property
    def places(self) -> list[list[str]]:
        """The places of each sentence: "file, line 3", or its id in an index."""
        return [[row.place for row in rows] for rows in self.records.units]

    @property
    def repeated(self) -> list[int]:
        """The numbers of the sentences that occur several times verbatim."""
        return [number for number, places in enumerate(self.places) if len(places) > 1]

    @property
    def pairs(self) -> Pairs:
        """The pairs at or above the threshold, most similar first; for documents, their nearest passages."""
        return self._document_pairs(least=0.0)

    def _document_pairs(self, least: float = 0.5) -> Pairs:
        """Return `pairs` whose documents have at least a share of their passages in common."""
        pairs, other = self.candidates.above(self.threshold), self.against or self.records
        if not (self.records.has_passages or other.has_passages):
            return pairs
        of = self.records.documents, other.documents
        return document_pairs(pairs, *of, is_one=self.against is None, least=least)

    def at(self, threshold: str | float) -> Duplicates:
        """Return the near-duplicates at another threshold, without comparing again.

        :param threshold: A similarity (0.9) or a percentile of random pairs ("99.99%").
        :raises InputError: If it is below ``floor``.
        """
        level = similarity_at(threshold, self.calibration)
        if level < self.floor:
            raise InputError(
                f"threshold {level:.4f} is too low: only pairs of at least {self.floor:.4f} were saved; "
                "search the corpus again"
            )
        return replace(self, threshold=level)

    def groups(self) -> list[list[int]]:
        """Return groups of sentences that are connected by pairs or repeated, largest group first.

        Two sentences of a group may be connected only through others; see `representatives`. Documents are
        connected if half of the passages of each have a pair in the other.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        if self.against is not None:
            raise InputError("there are no groups between two corpora: leave `against` out")
        pairs, of = self._document_pairs(), self.records.documents
        size = int(of.max()) + 1
        edges = (np.ones(len(pairs), dtype=bool), (of[pairs.a], of[pairs.b]))
        labels = connected_components(coo_array(edges, shape=(size, size)), directed=False)[1]
        listed = np.concatenate([np.column_stack([pairs.a, pairs.b]).ravel(), self.repeated]).astype(int)
        nearest = listed[np.unique(of[listed], return_index=True)[1]]
        together: dict[int, list[int]] = {}
        for number in sorted(nearest.tolist()):
            together.setdefault(int(labels[of[number]]), []).append(number)
        return sorted(together.values(), key=len, reverse=True)

    def representatives(self, rule: str = "first") -> tuple[np.ndarray, np.ndarray]:
        """Choose the sentences to keep: no two are a pair, and every other one is a pair with one of them.

        Between two corpora, sentences without a pair are kept. A document is kept or removed as a whole (see
        `groups`).

        :param rule: Which to choose first: the "first" in the corpus, the "longest", or the most "central",
            with the highest mean similarity to its group (pairs below the threshold count as 0).
        :return: For each sentence, the number of the most similar one that is kept, or -1 if it is kept
            itself; and their similarity.
        """
        pairs, of = self._document_pairs(), self.records.documents
        size = int(of.max()) + 1
        a, b, similarity = of[pairs.a], pairs.b, pairs.similarity
        if self.against is None:
            ends = np.column_stack([pairs.a, pairs.b])
            a, b, similarity = of[ends.ravel()], ends[:, ::-1].ravel(), np.repeat(similarity, 2)
            stays = self._choose(rule, size, a, of[b], similarity)
            removed = ~stays[a] & stays[of[b]]
            a, b, similarity = a[removed], b[removed], similarity[removed]
        best, alike = np.full(size, -1), np.ones(size, dtype=np.float32)
        numbers, first = np.unique(a, return_index=True)  # the most similar comes first
        best[numbers], alike[numbers] = b[first], similarity[first]
        return best[of], alike[of]

    def _choose(
        self, rule: str, size: int, a: np.ndarray, b: np.ndarray, similarity: np.ndarray
    ) -> np.ndarray:
        """Return which documents are kept: those without a pair among the ones chosen before."""
        worth: dict[str, Any] = {
            "first": np.zeros(size),
            "longest": np.bincount(self.records.documents, [len(text) for text in self.sentences]),
            "central": np.bincount(a, similarity, size),  # in a group, sums have the order of means
        }
        if rule not in worth:
            raise InputError(f"unknown rule {rule!r}: choose from {', '.join(worth)}")
        order = np.argsort(a, kind="stable")
        neighbors, starts = b[order], np.searchsorted(a[order], np.arange(size + 1))
        stays = np.ones(size, dtype=bool)
        for number in np.argsort(-worth[rule], kind="stable"):
            if stays[number]:
                stays[neighbors[starts[number] : starts[number + 1]]] = False
        return stays

    def split(self, rule: str = "first") -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the rows to keep and those to remove, in their order, with all columns.

        :param rule: As for `representatives`.
        :return: Removed rows also have ``duplicate_place`` (of the row), ``duplicate_reason`` ("verbatim",
            "near-duplicate" or "leakage"), ``duplicate_similarity``, ``duplicate_of`` (the text that is kept)
            and ``duplicate_of_place``.
        """
        best, alike = (values.tolist() for values in self.representatives(rule))
        numbers = {id(row): number for number, rows in enumerate(self.records.units) for row in rows}
        side, near = (self.records, "near-duplicate") if self.against is None else (self.against, "leakage")
        kept, removed, seen = [], [], set[int]()
        for row in self.records.rows:
            number = numbers[id(row)]
            of = best[number]
            if of < 0 and (self.against or number not in seen):
                kept.append(row.columns)
                seen.add(number)
                continue
            stays = side.entry(number if of < 0 else of)
            why = {
                "duplicate_place": row.place,
                "duplicate_reason": "verbatim" if of < 0 else near,
                "duplicate_similarity": alike[number],
                "duplicate_of": stays["text"],
                "duplicate_of_place": stays["places"][0],
            }
            removed.append({**row.columns, **why})
        return kept, removed

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Save the rows and all candidate pairs, for `load` and `at`; dates become strings."""
        about = {
            "format": _FORMAT,
            "threshold": self.threshold,
            "floor": self.floor,
            "calibration": self.calibration.to_dict(),
            "sides": [(side.rows, side.skipped) for side in (self.records, self.against) if side],
        }
        arrays = {"a": self.candidates.a, "b": self.candidates.b, "similarity": self.candidates.similarity}
        with new_folder(folder, overwrite=overwrite) as new:
            (new / FOUND).write_text(to_json(about), encoding="utf-8")
            write_tensors(new / "pairs.safetensors", arrays)
            write_manifest(new)

    @classmethod
    def load(cls, folder: str | Path) -> Duplicates:
        """Load near-duplicates from a folder that `save` wrote."""
        folder = Path(folder)
        about = read_json(folder / FOUND, version=_FORMAT)
        if not check_manifest(folder, advice="search the corpus again"):
            raise InputError(f"{folder} is damaged (no manifest): search the corpus again")
        calibration = Calibration.from_dict(about["calibration"], folder / FOUND)
        pairs = Pairs(**read_tensors(folder / "pairs.safetensors"), calibration=calibration)
        records, *others = [Records([Record(*row) for row in rows], n) for rows, n in about["sides"]]
        return cls(records, pairs, about["threshold"], about["floor"], calibration, *others)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the pairs as rows: similarity, percentile, place and columns of both (``a_``, ``b_``)."""
        a, b, found = self.records.units, (self.against or self.records).units, []
        for pair in self.pairs:
            row: dict[str, Any] = {"similarity": pair.similarity, "percentile": pair.percentile}
            for prefix, record in (("a_", a[pair.a][0]), ("b_", b[pair.b][0])):
                columns = {"place": record.place, **record.columns}
                row |= {prefix + name: value for name, value in columns.items()}
            found.append(row)
        return found

    def to_dict(self, rule: str = "first") -> dict[str, Any]:
        """Return a dictionary for JSON."""
        own, other = self.records.entry, (self.against or self.records).entry
        value: dict[str, Any] = {
            "sentences": len(self.sentences),
            "threshold": self.threshold,
            "threshold_percentile": float(self.calibration.percentile(self.threshold)),
            "random_pairs": self.calibration.pairs,
            "calibrated_on": self.calibration.source,
            "skipped": self.records.skipped,
            "pairs": [{**asdict(pair), "a": own(pair.a), "b": other(pair.b)} for pair in self.pairs],
        }
        if self.against is None:
            best = self.representatives(rule)[0]
            groups = self.groups()
            value["groups"] = [[{**own(i), "stays": bool(best[i] < 0)} for i in group] for group in groups]
        return value


def find_duplicates(
    corpus: Any,
    model: Any = None,
    *,
    threshold: str | float | None = None,
    precision: float | None = None,
    against: Any = None,
    column: str | Sequence[str] | ReadOptions | None = None,
    hold: int = 0,
    most: int = MOST,
    progress: bool = False,
    **opening: Unpack[Running],
) -> Duplicates:
    """Find near-duplicates by comparing every sentence of a corpus with every other.

    :param corpus: A corpus for `rankencoder.io.corpus.read_sentences`, a `RankIndex`, or its folder.
    :param model: A model for `rankencoder.model.open_model`; an index has its own.
    :param threshold: A similarity (0.9) or a percentile of random pairs ("99.99%"). By default the similarity
        that one in a million unrelated pairs would reach, or higher where that gives more than one pair per
        sentence; see `default_similarity`.
    :param precision: Instead of a threshold: the guaranteed precision, by labels of the model or index (see
        `rankencoder.labels.fitted_curve.fit_curve`).
    :param against: Another corpus or index: find only pairs between the two, such as leaked test sentences.
    :param column: The text column, or several, whose texts are joined by line breaks.
    :param hold: About how many candidate pairs to keep for `Duplicates.at`, if the threshold gives fewer.
    :param most: Maximum number of pairs to keep.
    :param opening: How to run a model that is loaded by name, as for `open_model`.
    :raises InputError: If fewer than 2 sentences are usable, the threshold is invalid, or there are more than
        ``most`` pairs.

    >>> def letters(texts):  # any function from strings to vectors is an encoder
    ...     return [[1 + text.count(c) for c in "aeiou"] for text in texts]
    >>> found = find_duplicates(["a banana", "bananas", "unit", "onion"], letters, threshold=0.98)
    >>> [(found.sentences[pair.a], found.sentences[pair.b]) for pair in found.pairs]
    [('a banana', 'bananas')]
    """
    if threshold is not None:
        parse_threshold(threshold)  # fail before the work
        if precision is not None:
            raise InputError("pass either a threshold or a precision")
    sides = [corpus] if against is None else [corpus, against]
    records, vectors, calibration, precise = _encode(sides, model, column, progress, opening, precision)
    one_each = min(1.0, (3 - len(sides)) / len(vectors[-1]))  # the share of pairs that is one per sentence
    given = precise if threshold is None else threshold
    level = default_similarity(calibration, one_each) if given is None else similarity_at(given, calibration)
    share, lowest = one_each * hold / len(vectors[0]), level
    if share:
        held = -1.0 if share >= 1 else calibration.similarity_at(min(100 - 100 * share, calibration.finest))
        lowest = min(level, held)
    pairs, lowest = similar_pairs(vectors, calibration, level, lowest, most, progress)
    if len(sides) == 1 and records[0].has_passages:
        of = records[0].documents
        pairs = pairs.take(np.flatnonzero(of[pairs.a] != of[pairs.b]))
    return Duplicates(records[0], pairs, level, lowest, calibration, *records[1:])


def _encode(
    sides: list[Any], model: Any, column: Any, progress: bool, opening: Running, precision: float | None
) -> tuple[list[Records], list[np.ndarray], Calibration, float | None]:
    """Return the rows and vectors of each corpus or index, their calibration, and a precision's threshold."""
    from rankencoder.model import RankEncoder, open_model
    from rankencoder.search.rank_index import RankIndex

    for i, side in enumerate(sides):
        if isinstance(side, (str, Path)) and (Path(side) / CONFIG).exists():
            sides[i] = RankIndex.load(side, model, **opening)
    indexes = [side for side in sides if isinstance(side, RankIndex)]
    if model is None and not indexes:
        raise InputError("no model: set `model` to a RankEncoder or an encoder (an index has its own)")
    encoder: Any = None
    if len(indexes) == 2:  # fails unless they have the same model
        encoder = RankIndex.load(indexes[1].folder.path, indexes[0].model).model
    elif len(indexes) < len(sides):
        encoder = indexes[0].model if indexes else open_model(model, **opening)
        column = with_tokenizer(column, encoder)
    precise = precision if precision is None else precise_threshold((*indexes, encoder)[0], precision)
    read = [
        Records.read_index(side) if isinstance(side, RankIndex) else (Records.read(side, column), None)
        for side in sides
    ]
    least = 3 - len(sides)
    for records, _ in read:
        if len(records.texts) < least:
            raise InputError(
                f"too few usable sentences to compare: {len(records.texts)}; use at least {least}"
            )
    vectors = [encoder.encode(records.texts, progress=progress) if v is None else v for records, v in read]
    calibration = indexes[0].calibration if indexes else None
    if calibration is None and isinstance(encoder, RankEncoder):
        calibration = Calibration.on_reference(encoder)
    if calibration is None:
        larger = max(vectors, key=len)
        chosen = np.random.default_rng(0).permutation(len(larger))[:SENTENCES]
        calibration = Calibration.measure(
            larger[chosen], "this corpus" if len(sides) == 1 else "the larger corpus"
        )
    return [records for records, _ in read], vectors, calibration, precise
