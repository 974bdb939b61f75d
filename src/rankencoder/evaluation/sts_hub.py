"""The STS sets of the hub, as MTEB has them, and copies of them in local folders."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankencoder.encoders import first_line
from rankencoder.errors import InputError
from rankencoder.evaluation.sts_data import GET, WHOLE_SICK, PairSet, make_pair, make_set

_COLUMNS = ("sentence1", "sentence2", "score")


@dataclass(frozen=True)
class HubSet:
    """A split of a data set on the hub, at a fixed commit."""

    repository: str
    revision: str
    split: str = "test"
    notes: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Return the repository's name without its owner."""
        return self.repository.rpartition("/")[2]


_STSB = ("mteb/stsbenchmark-sts", "b0fddb56ed78048fa8b90373c8a3cfc37b684831")

# the commits that mteb 2.26 evaluates on
HUB_SETS = {
    "STS12": HubSet("mteb/sts12-sts", "a0d554a64d88156834ff5ae9920b964011b16384"),
    "STS13": HubSet("mteb/sts13-sts", "7e90230a92c190f1bf69ae9002b8cea547a64cca"),
    "STS14": HubSet("mteb/sts14-sts", "6031580fec1f6af667f0bd2da0a551cf4f0b2375"),
    "STS15": HubSet("mteb/sts15-sts", "ae752c7c21bf194d8b67fd573edf7ae58183cbe3"),
    "STS16": HubSet("mteb/sts16-sts", "4d8694f8f0e0100860b497b999b3dbed754a0513"),
    "STS-B": HubSet(*_STSB),
    WHOLE_SICK: HubSet(
        "mteb/sickr-sts",
        "20a6d6f312dd54037fe07a32d58e5e168867909d",
        notes=(
            "MTEB's SICK-R is the whole corpus, train and trial pairs included: not comparable with the "
            "field's SICK-R, the 4,927 test pairs; for these, and for SICK-R dev, use SentEval's data",
        ),
    ),
    "STS-B dev": HubSet(*_STSB, split="validation"),
}


def hub_folder(folder: Path) -> Path | None:
    """Return the folder, this or its ``mteb``, that holds copies of the hub's sets; None if neither does."""
    for candidate in (folder, folder / "mteb"):
        if any((candidate / hub_set.folder).is_dir() for hub_set in HUB_SETS.values()):
            return candidate
    return None


def read_hub_set(copies: Path | None, name: str) -> PairSet:
    """Return a set of the hub, through its cache on this machine.

    Unlike those of SentEval, its texts are kept to the letter, so that results are those of MTEB.

    :param copies: A folder with copies of the hub's sets, to be read instead.
    :param name: Out of :data:`HUB_SETS`.
    :raises InputError: If the set cannot be had, or a row of it is no scored pair.
    """
    hub_set = HUB_SETS[name]
    folder = None if copies is None else copies / hub_set.folder
    source = f"{hub_set.repository}@{hub_set.revision}" if folder is None else str(folder)
    rows = _load(hub_set, folder)
    if missing := [column for column in _COLUMNS if column not in rows.column_names]:
        raise InputError(
            f"{source}: no column {' or '.join(missing)}; there is {', '.join(rows.column_names)}"
        )
    pairs = []
    for number, row in enumerate(rows, start=1):
        place = f"{source}, {hub_set.split}, row {number}"
        pairs.append(make_pair(row["sentence1"], row["sentence2"], row["score"], place))
    return make_set(name, {"all": pairs}, source, hub_set.notes)


def _load(hub_set: HubSet, folder: Path | None) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise InputError("the hub's sets need datasets: pip install 'rankencoder[data]'") from error
    if folder is not None and not folder.is_dir():
        raise InputError(f"no such folder: {folder}; {GET}")
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # not a line for each retry
    # versions before 4 would run a script that lies beside the data
    datasets.config.HF_DATASETS_TRUST_REMOTE_CODE = False
    name, revision = (hub_set.repository, hub_set.revision) if folder is None else (str(folder), None)
    try:
        with _without_bars(datasets):
            return datasets.load_dataset(name, split=hub_set.split, revision=revision)
    except Exception as error:  # no network, no such split, a damaged file: each library has its own
        reason = first_line(error)
        raise InputError(f"cannot load the split {hub_set.split!r} of {name} ({reason}); {GET}") from error


@contextmanager
def _without_bars(datasets: Any) -> Iterator[None]:
    """Keep the bars of a few thousand rows off the terminal."""
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()
