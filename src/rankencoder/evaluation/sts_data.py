"""The field's STS sets out of SentEval's or plain files, and a user's own scored pairs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankencoder.errors import InputError, located
from rankencoder.io.corpus import LONGEST, check_sentences
from rankencoder.io.files import Slice, bare_suffix, read_lines
from rankencoder.io.pairs import ScoredPair, read_scored_pairs, to_score

SEVEN = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
"""The test sets that the field averages over, in its order."""

DEV = ("STS-B dev", "SICK-R dev")
"""Sets for choosing between models; never for reporting."""

WHOLE_SICK = "SICK-R (all 9,927)"  # on the hub, train, trial and test pairs are one
STS_SCALE = (0.0, 5.0)

# the sub-sets of each set, in order, with their published numbers of pairs
SUBSETS = {
    "STS12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "OnWN": 750, "SMTnews": 399},
    "STS13": {"FNWN": 189, "headlines": 750, "OnWN": 561},  # the field leaves SMT out: its text is licensed
    "STS14": {
        "deft-forum": 450,
        "deft-news": 300,
        "headlines": 750,
        "images": 750,
        "OnWN": 750,
        "tweet-news": 750,
    },
    "STS15": {"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750, "images": 750},
    "STS16": {
        "answer-answer": 254,
        "headlines": 249,
        "plagiarism": 230,
        "postediting": 244,
        "question-question": 209,
    },
    "STS-B": {"all": 1379},
    "SICK-R": {"all": 4927},
    "STS-B dev": {"all": 1500},
    "SICK-R dev": {"all": 500},
    WHOLE_SICK: {"all": 9927},
}

_SUFFIXES = (".tsv", ".csv", ".jsonl")


class MissingDataError(InputError):
    """Public data that is not where it was looked for."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}; set `data` to a folder that holds it")


@dataclass(frozen=True)
class _Table:
    """A split in one file: its name in the plain layout, and its file and columns in SentEval's."""

    plain: str
    senteval: str
    score: int
    first: int
    second: int
    header: bool


_TABLES = {
    "STS-B": _Table("STSB/test", "STS/STSBenchmark/sts-test.csv", 4, 5, 6, header=False),
    "STS-B dev": _Table("STSB/dev", "STS/STSBenchmark/sts-dev.csv", 4, 5, 6, header=False),
    "SICK-R": _Table("SICKR/test", "SICK/SICK_test_annotated.txt", 3, 1, 2, header=True),
    "SICK-R dev": _Table("SICKR/trial", "SICK/SICK_trial.txt", 3, 1, 2, header=True),
}


@dataclass(frozen=True)
class PairSet:
    """Pairs of sentences with people's scores, in named sub-sets.

    :param subsets: The pairs by sub-set; a single one is called "all".
    :param source: Where the pairs are from: a path, or a hub name and revision.
    :param scale: The lowest and the highest score that there can be.
    :param notes: What a reader of the results must know, such as numbers that differ from the published ones.
    """

    name: str
    subsets: dict[str, list[ScoredPair]]
    source: str
    scale: tuple[float, float]
    notes: tuple[str, ...] = ()

    @property
    def pairs(self) -> list[ScoredPair]:
        """The pairs of all sub-sets, in order."""
        return [pair for subset in self.subsets.values() for pair in subset]

    @property
    def gold(self) -> np.ndarray:
        """The scores of all pairs."""
        return np.array([pair.score for pair in self.pairs])

    @property
    def scaled(self) -> np.ndarray:
        """The scores of all pairs, from 0 to 1."""
        low, high = self.scale
        return np.asarray((self.gold - low) / (high - low))

    @property
    def sentences(self) -> list[str]:
        """The distinct sentences, sorted."""
        return sorted({text for pair in self.pairs for text in pair[:2]})

    @property
    def fingerprint(self) -> str:
        """A SHA-256 of the names, scores and sentences, wherever they were read from."""
        digest = hashlib.sha256(json.dumps(self.name).encode())
        for name, pairs in self.subsets.items():
            for row in ([name], *pairs):
                digest.update(json.dumps(row).encode() + b"\n")
        return digest.hexdigest()


def read_pair_set(path: str | Path) -> PairSet:
    """Return a user's own scored pairs: a TSV, CSV or JSONL file, as ``read_scored_pairs`` takes it."""
    path = Path(path)
    pairs = read_scored_pairs(path)
    scores = [pair.score for pair in pairs]
    compressed = bare_suffix(path) != path.suffix.lower()
    name = Path(path.stem).stem if compressed else path.stem
    return PairSet(name, {"all": pairs}, str(path), (min(scores), max(scores)))


def make_set(
    name: str, subsets: dict[str, list[ScoredPair]], source: str, notes: Iterable[str] = ()
) -> PairSet:
    """Return an STS set, with notes where it is not as published."""
    scores = {pair.score for pairs in subsets.values() for pair in pairs}
    if len(scores) < 2:
        what = f"all scores are {scores.pop():g}" if scores else "no pair has a score"
        raise InputError(f"{source}: {what}, so nothing can correlate with them")
    found = list(notes)
    published = {"all": sum(SUBSETS[name].values()), **SUBSETS[name]}
    for subset, pairs in subsets.items():
        if len(pairs) != published[subset]:
            what = name if subset == "all" else f"{name} {subset}"
            found.append(f"{what} has {len(pairs):,} pairs here, {published[subset]:,} as published")
    low, high = STS_SCALE
    if min(scores) < low or max(scores) > high:
        found.append(f"{name} has scores from {min(scores):g} to {max(scores):g}, not {low:g} to {high:g}")
    return PairSet(name, subsets, source, STS_SCALE, tuple(found))


def make_pair(a: Any, b: Any, score: Any, place: str, score_place: str | None = None) -> ScoredPair:
    """Return a pair whose sentences and score were checked, with the places of both for errors."""
    with located(score_place or place):
        number = to_score(score)
    with located(place):
        check_sentences([a, b])
    return ScoredPair(a, b, number)


def _single_spaced(text: str) -> str:
    return " ".join(text.split())


def read_senteval_set(root: Path, name: str) -> PairSet:
    """Return a set out of the files of SentEval, or raise an `InputError`."""
    if name in _TABLES:
        path = root / _TABLES[name].senteval
        return make_set(name, {"all": list(_senteval_table(path, _TABLES[name]))}, str(path))
    folder = root / "STS" / f"{name}-en-test"
    subsets = {subset: _senteval_subset(folder, subset) for subset in SUBSETS[name]}
    return make_set(name, subsets, str(folder))


def _senteval_table(path: Path, table: _Table) -> Iterator[ScoredPair]:
    for line, (text, place) in enumerate(_lines(path)):
        if not text.strip() or (table.header and line == 0):
            continue
        cells = text.split("\t")  # at tabs only: stray quotes would merge lines
        width = max(table.score, table.first, table.second) + 1
        if len(cells) < width:
            raise InputError(f"{place}: expected at least {width} columns, got {len(cells)}")
        a, b = _single_spaced(cells[table.first]), _single_spaced(cells[table.second])
        yield make_pair(a, b, cells[table.score], place)


def _senteval_subset(folder: Path, subset: str) -> list[ScoredPair]:
    """Return the pairs of "STS.input.X.txt" that have a score in "STS.gs.X.txt"."""
    if (folder / f"STS.input.surprise.{subset}.txt").exists():
        subset = f"surprise.{subset}"  # as two of STS12 are called there
    inputs, gold = (folder / f"STS.{kind}.{subset}.txt" for kind in ("input", "gs"))
    texts, scores = list(_lines(inputs)), list(_lines(gold))
    if len(texts) != len(scores):
        raise InputError(f"{inputs} has {len(texts):,} lines, but {gold} has {len(scores):,}: one is damaged")
    pairs = []
    for (text, place), (score, score_place) in zip(texts, scores, strict=True):
        if not score.strip():
            continue  # nobody scored this pair
        cells = text.split("\t")
        if len(cells) != 2:
            raise InputError(f"{place}: expected 2 columns, got {len(cells)}")
        a, b = map(_single_spaced, cells)
        pairs.append(make_pair(a, b, score.strip(), place, score_place))
    return pairs


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each line, without its end, and its place."""
    if not path.is_file():
        raise MissingDataError(f"no such file: {path}")
    for row in read_lines(Slice(path), 8 * LONGEST):
        if row.text is None:
            raise InputError(f"{row.place}: the line is far too long for two sentences")
        yield row.text.rstrip("\r\n"), row.place


def read_plain_set(root: Path, name: str) -> PairSet:
    """Return a set out of plain files of scored pairs, or raise an `InputError`."""
    if name in _TABLES:
        path = _plain_file(root, _TABLES[name].plain)
        return make_set(name, {"all": _plain_pairs(path)}, str(path))
    files = {subset: _plain_file(root, f"{name}/{subset}") for subset in SUBSETS[name]}
    return make_set(name, {subset: _plain_pairs(path) for subset, path in files.items()}, str(root / name))


def _plain_file(root: Path, name: str) -> Path:
    found = [path for suffix in _SUFFIXES if (path := root / f"{name}{suffix}").is_file()]
    if not found:
        raise MissingDataError(f"no such file: {root / name}{_SUFFIXES[0]} (nor {', '.join(_SUFFIXES[1:])})")
    if len(found) > 1:
        raise InputError(f"which of {' and '.join(map(str, found))} is to be read? Remove the others")
    return found[0]


def _plain_pairs(path: Path) -> list[ScoredPair]:
    return [
        ScoredPair(_single_spaced(a), _single_spaced(b), score) for a, b, score in read_scored_pairs(path)
    ]
