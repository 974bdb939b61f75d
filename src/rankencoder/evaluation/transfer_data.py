"""The seven transfer tasks, out of the files of SentEval."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from rankencoder.errors import InputError, nearest
from rankencoder.evaluation.sts_data import MissingDataError

TRANSFER_TASKS = ("MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC")  # in the order of the field's tables
_QUESTIONS = {"ABBR": 0, "DESC": 1, "ENTY": 2, "HUM": 3, "LOC": 4, "NUM": 5}
_ANSWERS = {"0": 0, "1": 1}
_NOTHING = "."  # what SentEval's examples encode in place of an empty line


@dataclass(frozen=True)
class Split:
    """Sentences or pairs with their classes, sorted by words and class as in SentEval: folds depend on it."""

    first: tuple[str, ...]
    labels: tuple[int, ...]
    second: tuple[str, ...] = ()


@dataclass(frozen=True)
class TransferTask:
    """A task: what a linear classifier has to tell from the vectors of sentences.

    :param splits: "all" where the protocol makes its own splits; otherwise "train", "test" and, for SST-2,
        "dev".
    :param warnings: What is not as in the published data.
    """

    name: str
    classes: int
    splits: Mapping[str, Split]
    warnings: tuple[str, ...] = ()

    @cached_property
    def sentences(self) -> list[str]:
        """All distinct sentences, in the order of their first occurrence."""
        texts = (text for split in self.splits.values() for text in (*split.first, *split.second))
        return list(dict.fromkeys(texts))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content: name, splits, sentences and labels."""
        splits = {name: [split.first, split.second, split.labels] for name, split in self.splits.items()}
        return hashlib.sha256(json.dumps([self.name, self.classes, splits]).encode()).hexdigest()


@dataclass(frozen=True)
class _Row:
    words: tuple[list[str], ...]
    label: int


@dataclass(frozen=True)
class _File:
    path: str
    split: str
    count: int  # of rows in the published file
    read: Callable[[Path], Iterator[_Row]]


def _two_files(one: str, ones: int, zero: str, zeros: int) -> tuple[_File, ...]:
    """Return a task whose two classes have a file of sentences each."""
    return (
        _File(one, "all", ones, partial(_read_sentences, label=1)),
        _File(zero, "all", zeros, partial(_read_sentences, label=0)),
    )


def _read_sentences(path: Path, label: int) -> Iterator[_Row]:
    for text, _ in _lines(path, "latin-1"):
        yield _Row((text.split(),), label)


def _read_sst(path: Path) -> Iterator[_Row]:
    for text, place in _lines(path, "utf-8"):
        sentence, label = _columns(text.strip(), 2, place)
        yield _Row((sentence.split(),), _label(label, _ANSWERS, place))


def _read_trec(path: Path) -> Iterator[_Row]:
    for text, place in _lines(path, "latin-1"):
        label, colon, rest = text.strip().partition(":")
        kind, _, question = rest.partition(" ")
        if not (colon and kind and question.strip()):
            raise InputError(f"{place}: expected CLASS:kind and a question, got {reprlib.repr(text)}")
        yield _Row((question.split(),), _label(label, _QUESTIONS, place))


def _read_mrpc(path: Path) -> Iterator[_Row]:
    for i, (text, place) in enumerate(_lines(path, "utf-8-sig")):
        label, _, _, a, b = _columns(text.strip(), 5, place)
        if i > 0:
            yield _Row((a.split(), b.split()), _label(label, _ANSWERS, place))
        elif label in _ANSWERS:
            raise InputError(f"{place}: expected a header (Quality, #1 ID, ...), got a pair")


_FILES: dict[str, tuple[_File, ...]] = {
    "MR": _two_files("MR/rt-polarity.pos", 5331, "MR/rt-polarity.neg", 5331),
    "CR": _two_files("CR/custrev.pos", 2407, "CR/custrev.neg", 1368),
    "SUBJ": _two_files("SUBJ/subj.objective", 5000, "SUBJ/subj.subjective", 5000),
    "MPQA": _two_files("MPQA/mpqa.pos", 3312, "MPQA/mpqa.neg", 7294),
    "SST-2": (
        _File("SST/binary/sentiment-train", "train", 67349, _read_sst),
        _File("SST/binary/sentiment-dev", "dev", 872, _read_sst),
        _File("SST/binary/sentiment-test", "test", 1821, _read_sst),
    ),
    "TREC": (
        _File("TREC/train_5500.label", "train", 5452, _read_trec),
        _File("TREC/TREC_10.label", "test", 500, _read_trec),
    ),
    "MRPC": (
        _File("MRPC/msr_paraphrase_train.txt", "train", 4076, _read_mrpc),
        _File("MRPC/msr_paraphrase_test.txt", "test", 1725, _read_mrpc),
    ),
}


def read_transfer_task(folder: str | Path, name: str) -> TransferTask:
    """Return a transfer task out of SentEval's data folder, its ``downstream``, or any that holds the task.

    White space between words becomes one blank. An empty line, of which CR and MPQA have a few, becomes "."
    as in SentEval's examples.
    """
    if name not in TRANSFER_TASKS:
        raise InputError(f"no transfer task is called {name!r}:{nearest(name, TRANSFER_TASKS)}")
    home = _home(Path(folder), _FILES[name])
    rows: dict[str, list[_Row]] = {}
    warnings = []
    for file in _FILES[name]:
        found = list(file.read(home / file.path))
        if not found:
            raise MissingDataError(f"{home / file.path} is empty")
        if len(found) != file.count:
            warnings.append(f"{home / file.path} has {len(found)} rows, the published file {file.count}")
        rows.setdefault(file.split, []).extend(found)
    splits = {split: _split(found) for split, found in rows.items()}
    classes = len(_QUESTIONS) if name == "TREC" else 2
    return TransferTask(name, classes, splits, tuple(warnings))


def _home(folder: Path, files: tuple[_File, ...]) -> Path:
    """Return the folder that the paths of a task's files start from."""
    for home in (folder / "downstream", folder):
        if any((home / file.path).exists() for file in files):
            return home
    raise MissingDataError(f"neither {folder} nor its folder downstream holds {files[0].path}")


def _split(rows: list[_Row]) -> Split:
    rows = sorted(rows, key=lambda row: (*map(len, row.words), row.label))
    columns = zip(*(row.words for row in rows), strict=True)
    first, *second = (tuple(" ".join(words) or _NOTHING for words in column) for column in columns)
    return Split(first, tuple(row.label for row in rows), second[0] if second else ())


def _lines(path: Path, encoding: str) -> Iterator[tuple[str, str]]:
    """Yield each line and its place; lines end at newlines only."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise MissingDataError(f"no such file: {path}") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    for i, line in enumerate(data.removesuffix(b"\n").split(b"\n") if data else (), start=1):
        place = f"{path}, line {i}"
        try:
            yield line.decode(encoding if i == 1 else encoding.removesuffix("-sig")), place
        except UnicodeDecodeError as error:
            raise InputError(f"{place}: not UTF-8 text ({error.reason})") from error


def _columns(text: str, count: int, place: str) -> list[str]:
    columns = text.split("\t")
    if len(columns) != count:
        raise InputError(f"{place}: expected {count} columns separated by tabs, got {len(columns)}")
    return columns


def _label(label: str, labels: Mapping[str, int], place: str) -> int:
    try:
        return labels[label.strip()]
    except KeyError:
        raise InputError(f"{place}: the label {reprlib.repr(label)} is none of {', '.join(labels)}") from None
