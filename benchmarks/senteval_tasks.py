"""The seven transfer tasks, out of the files of SentEval."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rankencoder.errors import InputError, nearest
from rankencoder.evaluation.sts_data import MissingDataError, senteval_home

TRANSFER_TASKS = ("MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC")  # in the order of the field's tables
_QUESTIONS = {"ABBR": 0, "DESC": 1, "ENTY": 2, "HUM": 3, "LOC": 4, "NUM": 5}
_ANSWERS = {"0": 0, "1": 1}
_Row = tuple[list[list[str]], int]  # the words of each sentence, and the class
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


class _File(NamedTuple):
    path: str
    split: str
    rows: int  # as published
    label: int = -1  # of all rows, where they have none of their own


_FILES = {
    "MR": (_File("MR/rt-polarity.pos", "all", 5331, 1), _File("MR/rt-polarity.neg", "all", 5331, 0)),
    "CR": (_File("CR/custrev.pos", "all", 2407, 1), _File("CR/custrev.neg", "all", 1368, 0)),
    "SUBJ": (_File("SUBJ/subj.objective", "all", 5000, 1), _File("SUBJ/subj.subjective", "all", 5000, 0)),
    "MPQA": (_File("MPQA/mpqa.pos", "all", 3312, 1), _File("MPQA/mpqa.neg", "all", 7294, 0)),
    "SST-2": (
        _File("SST/binary/sentiment-train", "train", 67349),
        _File("SST/binary/sentiment-dev", "dev", 872),
        _File("SST/binary/sentiment-test", "test", 1821),
    ),
    "TREC": (_File("TREC/train_5500.label", "train", 5452), _File("TREC/TREC_10.label", "test", 500)),
    "MRPC": (
        _File("MRPC/msr_paraphrase_train.txt", "train", 4076),
        _File("MRPC/msr_paraphrase_test.txt", "test", 1725),
    ),
}


def read_transfer_task(folder: str | Path, name: str) -> TransferTask:
    """Return a transfer task out of SentEval's data folder, its ``downstream``, or any that holds the task.

    White space between words becomes one blank. An empty line, of which CR and MPQA have a few, becomes "."
    as in SentEval's examples.
    """
    if name not in TRANSFER_TASKS:
        raise InputError(f"no transfer task is called {name!r}:{nearest(name, TRANSFER_TASKS)}")
    task_folder = _FILES[name][0].path.partition("/")[0]
    home = senteval_home(Path(folder), task_folder)
    if home is None:
        raise MissingDataError(f"no {name} in {folder}: it holds no folder {task_folder} of SentEval's")
    rows: dict[str, list[_Row]] = {}
    warnings = []
    for file in _FILES[name]:
        found = _read(home / file.path, name, file.label)
        if len(found) != file.rows:
            warnings.append(f"{home / file.path} has {len(found)} rows, the published file {file.rows}")
        rows.setdefault(file.split, []).extend(found)
    splits = {split: _split(found) for split, found in rows.items()}
    return TransferTask(name, len(_QUESTIONS) if name == "TREC" else 2, splits, tuple(warnings))


def _read(path: Path, task: str, label: int) -> list[_Row]:
    if not path.is_file():
        raise MissingDataError(f"no such file: {path}")
    encoding = "utf-8-sig" if task in ("SST-2", "MRPC") else "latin-1"
    heading = int(task == "MRPC")
    rows = []
    for number, line in enumerate(path.read_bytes().splitlines()[heading:], start=1 + heading):
        try:
            rows.append(_parse(line.decode(encoding), task, label))
        except (KeyError, ValueError):
            raise InputError(f"{path}, line {number}: no row of {task}: {reprlib.repr(line)}") from None
    if not rows:
        raise MissingDataError(f"{path} is empty")
    return rows


def _parse(text: str, task: str, label: int) -> _Row:
    """Return the words of each sentence of a line, and its class."""
    if task == "SST-2":
        sentence, answer = text.strip().split("\t")
        return [sentence.split()], _ANSWERS[answer]
    if task == "TREC":
        kind, question = text.strip().split(" ", 1)
        return [question.split()], _QUESTIONS[kind.partition(":")[0]]
    if task == "MRPC":
        answer, _, _, a, b = text.strip().split("\t")
        return [a.split(), b.split()], _ANSWERS[answer]
    return [text.split()], label


def _split(rows: list[_Row]) -> Split:
    rows = sorted(rows, key=lambda row: (*map(len, row[0]), row[1]))
    columns = zip(*(words for words, _ in rows), strict=True)
    first, *second = (tuple(" ".join(words) or _NOTHING for words in column) for column in columns)
    return Split(first, tuple(label for _, label in rows), second[0] if second else ())
