"""STS sets wherever they are: SentEval's folders, plain files, or the hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rankencoder.encoder_sources import quiet_hub
from rankencoder.errors import InputError, first_line, nearest
from rankencoder.evaluation.sts_data import (
    DEV,
    SEVEN,
    WHOLE_SICK,
    MissingDataError,
    PairSet,
    make_set,
    read_plain_set,
    read_senteval_set,
)
from rankencoder.io.pairs import ScoredPair


@dataclass(frozen=True)
class HubSet:
    """A split of a data set on the hub, at a fixed commit."""

    repository: str
    revision: str
    split: str = "test"
    notes: tuple[str, ...] = ()


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
        fetched data, a folder of plain files (``STS12/MSRpar.tsv``, ``STSB/test.tsv``, ``SICKR/trial.tsv``),
        or "hub" for MTEB's copies, through the cache of ``datasets``.
    :param names: Each has to be there; by default all that the layout has. The hub has no split of SICK-R.
    """
    known, read = _layout(source)
    chosen = known if names is None else names
    for name in chosen:
        if name not in known:
            raise InputError(f"no set {name!r} in {source}:{nearest(name, known)}")
    return [read(name) for name in chosen]


def _layout(source: str | Path) -> tuple[Sequence[str], Callable[[str], PairSet]]:
    """Return the sets that a source has, by its looks, and what reads one of them."""
    if source == "hub":
        return tuple(HUB_SETS), _read_hub_set
    folder = Path(source)
    if not folder.is_dir():
        raise MissingDataError(f"no such folder: {folder}")
    if home := senteval_home(folder, "STS", "SICK"):
        return (*SEVEN, *DEV), partial(read_senteval_set, home)
    if any((folder / name).is_dir() for name in (*SEVEN[:5], "STSB", "SICKR")):
        return (*SEVEN, *DEV), partial(read_plain_set, folder)
    raise MissingDataError(
        f"no STS sets in {folder}: it holds neither SentEval's downstream/STS, nor STS12/MSRpar.tsv and the "
        "like"
    )


def senteval_home(folder: Path, *tasks: str) -> Path | None:
    """Return the folder with SentEval's folders of some tasks: the given one, or one below it."""
    for below in ("", "downstream", "data/downstream", "senteval/downstream"):
        if any((folder / below / task).is_dir() for task in tasks):
            return folder / below
    return None


def _read_hub_set(name: str) -> PairSet:
    """Return a set of the hub; unlike SentEval's, its texts are kept to the letter, as MTEB scores them."""
    try:
        import datasets
    except ImportError as error:
        raise InputError("the hub's sets need datasets: pip install 'rankencoder[data]'") from error
    hub_set = HUB_SETS[name]
    try:
        with quiet_hub():
            rows = datasets.load_dataset(hub_set.repository, split=hub_set.split, revision=hub_set.revision)
    except Exception as error:  # no network, a damaged file: each library has its own
        raise MissingDataError(f"cannot load {hub_set.repository} ({first_line(error)})") from error
    pairs = [ScoredPair(row["sentence1"], row["sentence2"], float(row["score"])) for row in rows]
    return make_set(name, {"all": pairs}, f"{hub_set.repository}@{hub_set.revision}", hub_set.notes)
