"""Tuning: which similarity suits an encoder, measured on scored pairs; where there are none, advice."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError
from rankencoder.evaluation.candidates import apply_candidate
from rankencoder.evaluation.choice import Choice, choose_similarity
from rankencoder.evaluation.cross_validation import check_pairs
from rankencoder.evaluation.sts_data import make_pair
from rankencoder.io.pairs import ScoredPair, read_scored_pairs
from rankencoder.io.storage import new_folder, write_json
from rankencoder.model import RankEncoder, open_model
from rankencoder.reference import SIZE, Reference
from rankencoder.tuning.diagnosis import Diagnosis, diagnose

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder, EncoderLike

Pairs = str | Path | Iterable[ScoredPair]
Dev = Pairs | Sequence[Pairs] | Mapping[str, Pairs]

RECORD = "tuning.json"


@dataclass(frozen=True)
class Tuned:
    """A RankEncoder with the similarity that was chosen for it.

    :param model: Ready to use and to save; without scored pairs as it was given.
    :param choice: What was chosen and why; None without scored pairs.
    :param diagnosis: What the encoder's space looks like.
    """

    model: RankEncoder
    choice: Choice | None
    diagnosis: Diagnosis

    def __str__(self) -> str:
        return textwrap.fill(self.choice.sentence() if self.choice else self.diagnosis.advice, 100)

    def to_dict(self) -> dict[str, Any]:
        """Return choice and diagnosis as plain data."""
        return {
            "encoder": self.model.encoder.name,
            "reference_size": len(self.model.reference),
            "choice": self.choice and self.choice.to_dict(),
            "diagnosis": self.diagnosis.to_dict(),
        }

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the model to a folder, for `RankEncoder.load`, with a record of the choice in tuning.json."""
        with new_folder(folder, overwrite=overwrite) as new:
            self.model.save(new, overwrite=True)
            write_json(new / RECORD, self.to_dict())


def tune(
    model: RankEncoder | Encoder | EncoderLike,
    dev: Dev = (),
    *,
    corpus: Any = None,
    size: int = SIZE,
    device: str | None = None,
    batch_size: int = 32,
    progress: bool | None = None,
) -> Tuned:
    """Choose the similarity of an encoder on scored pairs: plain cosine, ranks, powers, or blends of them.

    Plain cosine is kept unless another is better by more than chance in cross-validation, the luck of
    choosing counted in. Without scored pairs nothing is chosen: the diagnosis gives advice.

    :param model: Whatever `open_model` opens; a plain encoder needs a corpus.
    :param dev: A file of scored pairs (see `read_scored_pairs`), a list of `ScoredPair`, or
        several of these (a list, or by name), whose correlations are averaged. Each needs at least 30 pairs.
    :param corpus: The corpus to draw a reference corpus from, for an encoder that has none.
    :param size: How many sentences to draw.
    :param device: Where to run an encoder that is loaded by name.
    :param batch_size: Sentences per call of an encoder that is not a RankEncoder yet.
    :param progress: Show progress bars; by default on a terminal.

    >>> from rankencoder.io.pairs import ScoredPair
    >>> def letters(texts):  # any function from strings to vectors is an encoder
    ...     return [[1 + text.count(c) for c in "aeiou"] for text in texts]
    >>> corpus = [f"sentence number {i}" + "aeiou"[i % 5] * i for i in range(1200)]
    >>> pairs = [ScoredPair("a" * (i + 1), "e" * i + "a", 5 - i % 6) for i in range(40)]  # scores at random
    >>> tuned = tune(letters, pairs, corpus=corpus, progress=False)
    >>> tuned.choice.chosen.name, tuned.model.rank_weight
    ('plain cosine', 0.0)
    >>> tuned.choice.gain.verdict
    'within chance'
    """
    sets = _read_dev(dev)
    for name, pairs in sets.items():
        check_pairs(name, pairs)
    watched = sys.stderr.isatty() if progress is None else progress
    opened = open_model(model, device=device, batch_size=batch_size)
    if not isinstance(opened, RankEncoder):
        if corpus is None:
            raise InputError(f"{opened.name} is a plain encoder: set `corpus` to sentences of your data")
        reference = Reference.build(opened, corpus, size=size, progress=watched)
        opened = RankEncoder(opened, reference, progress=False)
    elif corpus is not None:
        raise InputError("a RankEncoder has its own reference corpus: leave `corpus` out")
    diagnosis = diagnose(opened)
    if not sets:
        return Tuned(opened, None, diagnosis)
    choice = choose_similarity(opened.encoder, opened.form, opened.rank_weight, sets, progress=watched)
    return Tuned(apply_candidate(opened, choice.chosen), choice, diagnosis)


def _read_dev(dev: Dev) -> dict[str, list[ScoredPair]]:
    """Return the scored pairs of one or several sets by name: files by their path, others by number."""
    found: dict[str, list[ScoredPair]] = {}
    for name, one in _named(dev):
        if name in found:
            raise InputError(f"{name} is given twice: each set of pairs counts once")
        is_file = isinstance(one, (str, Path))
        found[name] = read_scored_pairs(one) if is_file else [_checked(name, pair) for pair in one]
    return found


def _named(dev: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(dev, Mapping):
        yield from dev.items()
        return
    given = [dev] if isinstance(dev, (str, Path)) else list(dev)
    if given and isinstance(given[0], ScoredPair):
        given = [given]
    for number, one in enumerate(given, start=1):
        yield (str(one) if isinstance(one, (str, Path)) else f"set {number}"), one


def _checked(name: str, pair: Any) -> ScoredPair:
    try:
        a, b, score = pair
    except (TypeError, ValueError):
        what = f"expected pairs (sentence, sentence, score), got {str(pair)[:80]!r}"
        raise InputError(f"{name}: {what}") from None
    return make_pair(a, b, score, name)
