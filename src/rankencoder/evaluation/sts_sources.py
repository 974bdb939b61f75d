"""STS sets wherever they are: SentEval's folders, plain files, the hub or copies of the hub's sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from rankencoder.encoder_sources import quiet_hub
from rankencoder.errors import InputError, first_line, nearest
from rankencoder.evaluation.sts_data import (
    DEV,
    SEVEN,
    WHOLE_SICK,
    MissingDataError,
    PairSet,
    make_pair,
    make_set,
    read_plain_set,
    read_senteval_set,
)

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
        """The repository's name without its owner."""
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


def read_sts(source: str | Path, names: Sequence[str] | None = None) -> list[PairSet]:
    """Return STS sets in the order of their names.

    :param source: A SentEval folder (or its ``downstream``, or a folder with its STS and SICK), the folder of
        fetched data, a folder of plain files (``STS12/MSRpar.tsv``, ``STSB/test.tsv``,
        ``SICKR/trial.tsv``; also .csv and .jsonl), a folder with copies of the hub's sets (``sts12-sts`` or
        ``mteb/sts12-sts``), or "hub" for these themselves.
    :param names: Each has to be there; by default all that the layout has. The hub has no split of SICK-R.
    """
    known, read = _layout(source)
    chosen = known if names is None else [names] if isinstance(names, str) else names
    for name in chosen:
        if name in known:
            continue
        if name.startswith("SICK-R") and WHOLE_SICK in known:
            raise MissingDataError(
                f"{name!r} needs SentEval's data: the hub has no splits of it, only {WHOLE_SICK!r}"
            )
        raise InputError(f"no set {name!r} in {source}:{nearest(name, known)}")
    return [read(name) for name in chosen]


def _layout(source: str | Path) -> tuple[Sequence[str], Callable[[str], PairSet]]:
    """Return the sets that a source has, by its looks, and what reads one of them."""
    if source == "hub":
        return tuple(HUB_SETS), partial(read_hub_set, None)
    folder = Path(source)
    if not folder.is_dir():
        raise MissingDataError(f"no such folder: {folder}")
    for below in ("", "downstream", "data/downstream", "senteval/downstream"):
        if (folder / below / "STS").is_dir() or (folder / below / "SICK").is_dir():
            return (*SEVEN, *DEV), partial(read_senteval_set, folder / below)
    if any((folder / name).is_dir() for name in (*SEVEN[:5], "STSB", "SICKR")):
        return (*SEVEN, *DEV), partial(read_plain_set, folder)
    for copies in (folder, folder / "mteb"):
        if any((copies / hub_set.folder).is_dir() for hub_set in HUB_SETS.values()):
            return tuple(HUB_SETS), partial(read_hub_set, copies)
    raise MissingDataError(
        f"no STS sets in {folder}: it holds neither SentEval's downstream/STS, nor STS12/MSRpar.tsv and the "
        "like, nor the hub's sts12-sts"
    )


def read_hub_set(copies: Path | None, name: str) -> PairSet:
    """Return a set of the hub, through its cache on this machine, or out of a folder with copies.

    Unlike those of SentEval, its texts are kept to the letter, so that results are those of MTEB.
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
        raise MissingDataError(f"no such folder: {folder}")
    name, revision = (hub_set.repository, hub_set.revision) if folder is None else (str(folder), None)
    try:
        with hub_output(progress=False), _quiet(datasets):
            return datasets.load_dataset(name, split=hub_set.split, revision=revision)
    except Exception as error:  # no network, no such split, a damaged file: each library has its own
        reason = first_line(error)
        raise MissingDataError(f"cannot load the split {hub_set.split!r} of {name} ({reason})") from error


@contextmanager
def hub_output(progress: bool) -> Iterator[None]:
    """Silence the hub's warnings, and show progress bars or not."""
    from huggingface_hub import utils

    with quiet_hub(), nullcontext() if progress else _quiet(utils):
        yield


@contextmanager
def _quiet(library: ModuleType) -> Iterator[None]:
    """Hide the progress bars of datasets or huggingface_hub."""
    shown = not library.are_progress_bars_disabled()
    library.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            library.enable_progress_bars()
