"""The field's STS sets, from SentEval or plain files, and the user's own scored pairs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankencoder.errors import InputError, find_name, nearest
from rankencoder.evaluation.pair_metrics import Metric, metric_for
from rankencoder.io.files import bare_suffix
from rankencoder.io.pairs import (
    DEV_FILES,
    ScoredPair,
    make_pair,
    read_pair_lines,
    read_scored_pairs,
    senteval_rows,
)

SEVEN = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
"""The test sets that the field averages over, in its order."""

DEV = ("STS-B dev", "SICK-R dev")
"""Sets for choosing between models; never for reporting."""


# the subsets of each set, in order, with their published numbers of pairs
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
}

# the one file of a set: its name in the plain layout, and its path in SentEval's
_SINGLE_FILES = {
    "STS-B": ("STSB/test.tsv", "STS/STSBenchmark/sts-test.csv"),
    "STS-B dev": ("STSB/dev.tsv", DEV_FILES["stsb"]),
    "SICK-R": ("SICKR/test.tsv", "SICK/SICK_test_annotated.txt"),
    "SICK-R dev": ("SICKR/trial.tsv", DEV_FILES["sickr"]),
}


class MissingDataError(InputError):
    """Public data that was not found."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}; set `data` to a folder that holds it")


@dataclass(frozen=True)
class PairSet:
    """Sentence pairs with gold scores, in named subsets.

    :param subsets: The pairs by subset; a single one is called "all".
    :param scale: The lowest and the highest possible score.
    :param notes: Notes for readers of the results, such as numbers that differ from the published ones.
    """

    name: str
    subsets: dict[str, list[ScoredPair]]
    source: str
    scale: tuple[float, float]
    notes: tuple[str, ...] = ()

    @property
    def pairs(self) -> list[ScoredPair]:
        """The pairs of all subsets, in order."""
        return [pair for subset in self.subsets.values() for pair in subset]

    @property
    def gold(self) -> np.ndarray:
        """The scores of all pairs."""
        return np.array([pair.score for pair in self.pairs])

    @property
    def weights(self) -> np.ndarray:
        """The weights of all pairs."""
        return np.array([pair.weight for pair in self.pairs])

    @property
    def metric(self) -> Metric:
        """The metric for these scores."""
        return metric_for(self.gold)

    @property
    def sentences(self) -> list[str]:
        """The distinct sentences, sorted."""
        return sorted({text for pair in self.pairs for text in pair[:2]})

    @property
    def fingerprint(self) -> str:
        """A SHA-256 of the names, scores, sentences and weights, independent of the source."""
        digest = hashlib.sha256(json.dumps(self.name).encode())
        for name, pairs in self.subsets.items():
            for row in ([name], *(pair if pair.weight != 1 else pair[:3] for pair in pairs)):
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


def read_sts(source: str | Path, names: Sequence[str] = (*SEVEN, *DEV)) -> list[PairSet]:
    """Return STS sets in the order of their names.

    :param source: A SentEval folder (or its ``downstream``, or a folder with its STS and SICK), the folder of
        fetched data, or a folder of plain files (``STS12/MSRpar.tsv``, ``STSB/test.tsv``,
        ``SICKR/trial.tsv``).
    """
    names = [known_name(name, list(SUBSETS), "set") for name in names]
    folder = Path(source)
    if not folder.is_dir():
        raise MissingDataError(f"no such folder: {folder}")
    if home := senteval_home(folder, "STS", "SICK"):
        return [_read_set(home, name, is_plain=False) for name in names]
    if any((folder / name).is_dir() for name in (*SEVEN[:5], "STSB", "SICKR")):
        return [_read_set(folder, name, is_plain=True) for name in names]
    raise MissingDataError(
        f"no STS sets in {folder}: expected SentEval's downstream/STS or plain files like STS12/MSRpar.tsv"
    )


def known_name(name: str, names: Sequence[str], what: str) -> str:
    """Return the known name, ignoring case and punctuation."""
    if known := find_name(name, names):
        return known
    raise InputError(f"unknown {what} {name!r}:{nearest(name, names)}")


def senteval_home(folder: Path, *tasks: str) -> Path | None:
    """Return the folder with SentEval's folders of some tasks: the given one, or one below it."""
    for below in ("", "downstream", "data/downstream", "senteval/downstream"):
        if any((folder / below / task).is_dir() for task in tasks):
            return folder / below
    return None


def _make_set(name: str, subsets: dict[str, list[ScoredPair]], source: Path) -> PairSet:
    """Return an STS set, with notes where it differs from the published one."""
    if len({pair.score for pairs in subsets.values() for pair in pairs}) < 2:
        raise InputError(f"{source}: fewer than two different scores, so nothing can correlate with them")
    notes = []
    for subset, number in SUBSETS[name].items():
        if len(subsets[subset]) != number:
            what = name if subset == "all" else f"{name} {subset}"
            notes.append(f"{what} has {len(subsets[subset]):,} pairs here, {number:,} as published")
    return PairSet(name, subsets, str(source), (0.0, 5.0), tuple(notes))


def _read_set(root: Path, name: str, *, is_plain: bool) -> PairSet:
    """Read a set from plain files of scored pairs, or from SentEval's."""
    if name in _SINGLE_FILES:
        path = root / _SINGLE_FILES[name][0 if is_plain else 1]
        return _make_set(name, {"all": _plain_pairs(path) if is_plain else _senteval_table(path)}, path)
    folder = root / (name if is_plain else f"STS/{name}-en-test")
    subsets = {
        subset: _plain_pairs(folder / f"{subset}.tsv") if is_plain else _senteval_subset(folder, subset)
        for subset in SUBSETS[name]
    }
    return _make_set(name, subsets, folder)


def _plain_pairs(path: Path) -> list[ScoredPair]:
    pairs = read_scored_pairs(_existing(path))
    return [pair._replace(a=_single_spaced(pair.a), b=_single_spaced(pair.b)) for pair in pairs]


def _senteval_table(path: Path) -> list[ScoredPair]:
    """Return the pairs of a table of STS-B or SICK-R."""
    rows = senteval_rows(_existing(path), is_sick=path.parent.name == "SICK")
    return [make_pair(a, b, score, place) for (score, a, b), place in rows]


def _senteval_subset(folder: Path, subset: str) -> list[ScoredPair]:
    """Return the pairs of "STS.input.X.txt" that have a score in "STS.gs.X.txt"."""
    if (folder / f"STS.input.surprise.{subset}.txt").exists():
        subset = f"surprise.{subset}"  # two of STS12 have this prefix there
    inputs, gold = (_existing(folder / f"STS.{kind}.{subset}.txt") for kind in ("input", "gs"))
    texts = list(read_pair_lines(inputs))
    scores = [score.strip() for score, _ in read_pair_lines(gold)]
    if len(texts) != len(scores):
        raise InputError(f"{inputs} has {len(texts):,} lines, but {gold} has {len(scores):,}: one is damaged")
    pairs = []
    for (text, place), score in zip(texts, scores, strict=True):
        if not score:
            continue  # nobody scored this pair
        cells = [_single_spaced(cell) for cell in text.split("\t")]
        if len(cells) != 2:
            raise InputError(f"{place}: expected 2 columns, got {len(cells)}")
        pairs.append(make_pair(cells[0], cells[1], score, place))
    return pairs


def _single_spaced(text: str) -> str:
    return " ".join(text.split())


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise MissingDataError(f"no such file: {path}")
    return path
