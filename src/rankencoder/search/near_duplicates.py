"""Sentences of a corpus that say nearly the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from rankencoder.errors import InputError
from rankencoder.io.corpus import LONGEST, read_sentences
from rankencoder.model import RankEncoder, open_model
from rankencoder.search.calibration import SENTENCES, Calibration
from rankencoder.search.index_folder import CONFIG
from rankencoder.search.rank_index import RankIndex
from rankencoder.search.table import vectors_of

THRESHOLD = 99.9999  # the percentile of random pairs above which two sentences are listed by default
_BLOCK, _WIDTH = 1024, 8192  # sentences that are compared at once with so many others


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
    :param skipped: How many empty and over-long sentences were left out.
    """

    sentences: list[str]
    places: list[list[str]]
    pairs: list[Pair]
    threshold: float
    calibration: Calibration
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
    """Find the sentences of a corpus that are nearly the same: each is compared with each.

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
    wanted = parse_threshold(threshold)
    if isinstance(corpus, (str, Path)) and (Path(corpus) / CONFIG).exists():
        corpus = RankIndex.load(corpus, model, device=device, batch_size=batch_size)
    places: dict[str, list[str]] = {}
    skipped, calibration = 0, None
    if isinstance(corpus, RankIndex):
        vectors = _read_index(corpus, places)
        calibration = corpus.calibration
    elif model is None:
        raise InputError("which model? Set `model` to a RankEncoder or an encoder (an index has its own)")
    else:
        for row in read_sentences(corpus, column=column, max_chars=LONGEST):
            if row.text:
                places.setdefault(row.text, []).append(row.place)
            skipped += not row.text
        _check_number(places)
        opened = open_model(model, device=device, batch_size=batch_size)
        vectors = opened.encode(list(places), progress=progress)
        if isinstance(opened, RankEncoder):
            calibration = Calibration.on_reference(opened)
    _check_number(places)
    if calibration is None:
        chosen = np.random.default_rng(0).permutation(len(vectors))[:SENTENCES]
        calibration = Calibration.measure(vectors[chosen], "this corpus")
    level = _similarity_at(wanted, calibration)
    found = list(islice(_all_pairs(vectors, level, progress), None if most is None else most + 1))
    if most is not None and len(found) > most:
        raise InputError(f"more than {most:,} pairs are that similar: choose a higher threshold")
    found.sort(key=lambda pair: (-pair[2], pair[:2]))
    percentiles = calibration.percentile(np.array([similarity for *_, similarity in found])).tolist()
    pairs = [Pair(*pair, percentile) for pair, percentile in zip(found, percentiles, strict=True)]
    return Duplicates(list(places), list(places.values()), pairs, level, calibration, skipped)


def _check_number(places: dict[str, list[str]]) -> None:
    if len(places) < 2:
        raise InputError(f"too few usable sentences to compare: {len(places)}; give at least 2")


def _read_index(index: RankIndex, places: dict[str, list[str]]) -> np.ndarray:
    """Return the vectors of an index's different sentences, and fill in their ids."""
    vectors = np.empty((len(index), index.about.dimension), np.float32)
    for batch in index.rows.batches(["id", "text", "vector"]):
        first = []
        for i, row in enumerate(batch.select(["id", "text"]).to_pylist()):
            if row["text"] not in places:
                first.append(i)
            places.setdefault(row["text"], []).append(row["id"])
        vectors[len(places) - len(first) : len(places)] = vectors_of(batch)[first]
    return vectors[: len(places)]


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


def _similarity_at(wanted: tuple[float, bool] | None, calibration: Calibration) -> float:
    number, percent = wanted or (min(THRESHOLD, calibration.finest), True)
    return calibration.similarity_at(number) if percent else number


def _all_pairs(vectors: np.ndarray, level: float, progress: bool) -> Iterator[tuple[int, int, float]]:
    for start in tqdm(range(0, len(vectors), _BLOCK), desc="Comparing", disable=not progress):
        for other in range(start, len(vectors), _WIDTH):
            block = vectors[start : start + _BLOCK] @ vectors[other : other + _WIDTH].T
            rows, columns = np.nonzero(block >= level)
            for row, column in zip(rows, columns, strict=True):
                if start + row < other + column:
                    yield int(start + row), int(other + column), float(block[row, column])
