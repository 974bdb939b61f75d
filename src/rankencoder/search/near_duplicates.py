"""Sentences of a corpus that say nearly the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.corpus import LONGEST, read_sentences
from rankencoder.search.calibration import SENTENCES, Calibration
from rankencoder.search.index_encoder import open_encoder
from rankencoder.search.index_folder import CONFIG
from rankencoder.search.rank_index import RankIndex
from rankencoder.search.table import vectors_of

THRESHOLD = 99.9999  # the percentile of random pairs above which two sentences are listed by default
EXACT = 50_000  # sentences up to which each is compared with each; of more, each with its nearest in an index
_HELD = 100_000_000  # numbers of an index's vectors that are held to compare each with each
_NEAREST = 32
_BLOCK = 1024


@dataclass(frozen=True)
class Pair:
    """Two sentences that are nearly the same.

    :param a: The number of a sentence in `Duplicates.sentences`; b is larger.
    :param percentile: The per cent of random pairs that the similarity is higher than.
    """

    a: int
    b: int
    similarity: float
    percentile: float


@dataclass
class Duplicates:
    """The near-duplicates of a corpus.

    :param sentences: Its different sentences.
    :param places: Where each is: "file, line 3", or its id in an index; several if it is repeated verbatim.
    :param pairs: The pairs at or above the threshold, most similar first.
    :param threshold: The similarity from which on pairs are listed.
    :param exact: Whether every pair was looked at, or only each sentence's nearest 32.
    :param skipped: How many empty and over-long sentences were left out.
    """

    sentences: list[str]
    places: list[list[str]]
    pairs: list[Pair]
    threshold: float
    calibration: Calibration
    exact: bool = True
    skipped: int = 0

    @property
    def repeated(self) -> list[int]:
        """The numbers of the sentences that are there several times, word for word."""
        return [number for number, places in enumerate(self.places) if len(places) > 1]

    def groups(self) -> list[list[int]]:
        """Return the sentences that are connected by pairs or are repeated, largest group first."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        size = len(self.sentences)
        ends = np.array([(pair.a, pair.b) for pair in self.pairs], dtype=np.int64).reshape(-1, 2)
        graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(size, size))
        labels = connected_components(graph, directed=False)[1]
        together: dict[int, list[int]] = {}
        for number in sorted({*ends.ravel().tolist(), *self.repeated}):
            together.setdefault(int(labels[number]), []).append(number)
        return sorted(together.values(), key=len, reverse=True)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        found = [{"text": text, "places": at} for text, at in zip(self.sentences, self.places, strict=True)]
        return {
            "sentences": len(self.sentences),
            "threshold": self.threshold,
            "threshold_percentile": float(self.calibration.percentile(self.threshold)),
            "random_pairs": self.calibration.pairs,
            "calibrated_on": self.calibration.source,
            "exact": self.exact,
            "skipped": self.skipped,
            "pairs": [{**asdict(pair), "a": found[pair.a], "b": found[pair.b]} for pair in self.pairs],
            "groups": [[found[number] for number in group] for group in self.groups()],
        }


def find_duplicates(
    corpus: Any,
    model: Any = None,
    *,
    threshold: str | float | None = None,
    column: str | None = None,
    device: str | None = None,
    batch_size: int = 32,
    most: int | None = None,
    progress: bool = False,
) -> Duplicates:
    """Find the sentences of a corpus that are nearly the same.

    :param corpus: What `rankencoder.io.corpus.read_sentences` reads, a `RankIndex`, or the folder of one.
    :param model: Whatever `rankencoder.model.open_model` opens; an index has its own.
    :param threshold: From which similarity on: a number is the similarity itself (0.9), a text with a per
        cent sign the share of random pairs that it is to be higher than ("99.99%"); by default 99.9999%, or
        the highest that can be told where there are too few pairs for that.
    :param device: Where to run a model that is loaded by name.
    :param most: How many pairs may be found.
    :raises InputError: If fewer than 2 sentences are usable, the threshold is none, or more pairs are found.

    >>> def letters(texts):  # any function from strings to vectors is an encoder
    ...     return [[1 + text.count(c) for c in "aeiou"] for text in texts]
    >>> found = find_duplicates(["a banana", "bananas", "unit", "onion"], letters, threshold=0.98)
    >>> [(found.sentences[pair.a], found.sentences[pair.b]) for pair in found.pairs]
    [('a banana', 'bananas')]
    """
    parse_threshold(threshold)
    if isinstance(corpus, (str, Path)) and (Path(corpus) / CONFIG).exists():
        corpus = RankIndex.load(corpus, model)
    if isinstance(corpus, RankIndex):
        return _in_index(corpus, threshold, most, progress)
    if model is None:
        raise InputError("which model? Set `model` to a RankEncoder or an encoder (an index has its own)")
    places: dict[str, list[str]] = {}
    skipped = 0
    for row in read_sentences(corpus, column=column, max_chars=LONGEST):
        if row.text:
            places.setdefault(row.text, []).append(row.place)
        skipped += not row.text
    if len(places) < 2:
        raise InputError(f"only {len(places)} usable sentence(s): there is nothing to compare")
    encoder = open_encoder(model, device=device, batch_size=batch_size)
    if len(places) > EXACT:
        with TemporaryDirectory(prefix="rankencoder-") as folder:
            index = RankIndex.build(encoder, list(places), Path(folder) / "index", progress=progress)
            found = _in_index(index, threshold, most, progress)
    else:
        vectors = encoder(list(places), progress=progress)
        chosen = np.random.default_rng(0).permutation(len(vectors))[:SENTENCES]
        calibration = encoder.calibrate() or Calibration.measure(vectors[chosen], "this corpus")
        found = compare_all(list(places), vectors, calibration, threshold, most)
    found.places = [places[text] for text in found.sentences]
    found.skipped = skipped
    return found


def compare_all(
    sentences: list[str],
    vectors: np.ndarray,
    calibration: Calibration,
    threshold: str | float | None,
    most: int | None = None,
) -> Duplicates:
    """Compare each of some different sentences with each, by their unit vectors (see `find_duplicates`)."""
    level = _similarity_at(threshold, calibration)
    pairs = list(islice(_all_pairs(vectors, level), None if most is None else most + 1))
    _check_number(len(pairs), most)
    places = [[str(number)] for number in range(len(sentences))]
    return Duplicates(sentences, places, _sorted(pairs, calibration), level, calibration)


def _check_number(pairs: int, most: int | None) -> None:
    if most is not None and pairs > most:
        raise InputError(f"more than {most:,} pairs are that similar: choose a higher threshold")


def parse_threshold(threshold: str | float | None) -> tuple[float, bool] | None:
    """Return a threshold's number, and whether it is a percentile of random pairs.

    >>> parse_threshold("99.9%"), parse_threshold("0.8"), parse_threshold(0.8)
    ((99.9, True), (0.8, False), (0.8, False))
    """
    if threshold is None:
        return None
    text = str(threshold).strip()
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = float("nan")
    if not (0 <= number < 100 if percent else -1 <= number <= 1):
        raise InputError(
            f"threshold {text!r} is neither a similarity (0.9) nor a share of random pairs (99.99%)"
        )
    return number, percent


def _similarity_at(threshold: str | float | None, calibration: Calibration) -> float:
    parsed = parse_threshold(threshold)
    if parsed is None:
        return calibration.similarity_at(min(THRESHOLD, calibration.finest))
    number, percent = parsed
    return calibration.similarity_at(number) if percent else number


def _all_pairs(vectors: np.ndarray, level: float) -> Iterator[tuple[int, int, float]]:
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK] @ vectors[start:].T
        rows, columns = np.nonzero(block >= level)
        for row, column in zip(rows, columns, strict=True):
            if row < column:
                yield start + int(row), start + int(column), float(block[row, column])


def _in_index(
    index: RankIndex, threshold: str | float | None, most: int | None, progress: bool
) -> Duplicates:
    """Compare the sentences of an index: each with each, or of many each with its nearest."""
    if index.has_model:
        index.model  # noqa: B018  (a RankEncoder's reference corpus calibrates)
    calibration = index.calibration
    if calibration is None or len(index) < 2:
        raise InputError(f"{len(index)} sentence(s) in {index.folder.path}: there is nothing to compare")
    is_small = len(index) <= EXACT and len(index) * index.about.dimension <= _HELD
    places: dict[str, list[str]] = {}
    vectors: list[np.ndarray] = []
    for batch in index.rows.batches(["id", "text", "vector"] if is_small else ["id", "text"]):
        first = []
        for i, (identity, text) in enumerate(zip(*map(batch.column, ("id", "text")), strict=True)):
            if text.as_py() not in places:
                first.append(i)
            places.setdefault(text.as_py(), []).append(identity.as_py())
        if is_small:
            vectors.append(vectors_of(batch)[first])
    if is_small:
        found = compare_all(list(places), np.concatenate(vectors), calibration, threshold, most)
        found.places = list(places.values())
        return found
    level = _similarity_at(threshold, calibration)
    pairs = _sorted(_nearest_pairs(index, places, level, most, progress), calibration)
    return Duplicates(list(places), list(places.values()), pairs, level, calibration, exact=False)


def _nearest_pairs(
    index: RankIndex, places: dict[str, list[str]], level: float, most: int | None, progress: bool
) -> list[tuple[int, int, float]]:
    """Return the pairs of a sentence and one of its nearest."""
    from tqdm.auto import tqdm

    numbers = {identity: number for number, ids in enumerate(places.values()) for identity in ids}
    found: dict[tuple[int, int], float] = {}
    batches = index.rows.batches(["id", "vector"], _BLOCK)
    for batch in tqdm(batches, total=ceil(len(numbers) / _BLOCK), disable=not progress):
        near = index.rows.search(vectors_of(batch), _NEAREST + 1, None)
        for identity, rows in zip(batch["id"].to_pylist(), near, strict=True):
            for row in rows:
                a, b = numbers.get(identity), numbers.get(row["id"])  # other processes may write
                if a is not None and b is not None and a != b and 1 - row["_distance"] >= level:
                    found[min(a, b), max(a, b)] = 1 - row["_distance"]
        _check_number(len(found), most)
    return [(a, b, similarity) for (a, b), similarity in found.items()]


def _sorted(pairs: Iterable[tuple[int, int, float]], calibration: Calibration) -> list[Pair]:
    rows = sorted(pairs, key=lambda pair: (-pair[2], pair[:2]))
    percentiles = calibration.percentile(np.array([row[2] for row in rows])).tolist()
    return [Pair(*row, percentile) for row, percentile in zip(rows, percentiles, strict=True)]
