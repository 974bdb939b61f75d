"""Choose the similarity of an encoder on scored pairs; without any, advise."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError
from rankencoder.evaluation.candidates import Candidate
from rankencoder.evaluation.choice import Choice, check_pairs, choose_similarity
from rankencoder.evaluation.halves import Halves, describe_halves, score_half_matching
from rankencoder.io.pairs import ScoredPair, make_pair, read_scored_pairs
from rankencoder.io.storage import new_folder, write_json
from rankencoder.model import RankEncoder, open_model
from rankencoder.reference import SIZE, Reference

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.opening import Opening
    from rankencoder.encoders import Encoder, EncoderLike

Dev = str | Path | Sequence[str | Path] | Iterable[ScoredPair] | Mapping[str, Iterable[ScoredPair]]

RECORD = "tuning.json"


@dataclass(frozen=True)
class Tuned:
    """A RankEncoder with the similarity that was chosen for it.

    :param model: Ready to use and to save; unchanged without scored pairs.
    :param choice: The chosen similarity, and why; None without scored pairs.
    :param halves: The evidence for the advice, if there are no scored pairs.
    """

    model: RankEncoder
    choice: Choice | None = None
    halves: Halves | None = None

    def __str__(self) -> str:
        return self.choice.sentence() if self.choice else describe_halves(self.halves)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the model as plain data."""
        return {
            "encoder": self.model.encoder.name,
            "reference_size": len(self.model.reference),
            "choice": self.choice and self.choice.to_dict(),
            "halves": self.halves and self.halves.to_dict(),
            "sentence": str(self),
        }

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the model to a folder, for `RankEncoder.load`, with a record of the choice in tuning.json."""
        with new_folder(folder, overwrite=overwrite) as new:
            self.model.save(new, overwrite=True, measured=[str(self)])
            write_json(new / RECORD, self.to_dict())


def tune(
    model: RankEncoder | Encoder | EncoderLike,
    dev: Dev = (),
    *,
    corpus: Any = None,
    size: int = SIZE,
    progress: bool | None = None,
    **opening: Unpack[Opening],
) -> Tuned:
    """Choose the similarity of an encoder on scored pairs: plain cosine, ranks, powers, or blends of them.

    Plain cosine is kept unless another is better by more than chance in cross-validation, also corrected for
    choosing the best of many. Without scored pairs nothing is chosen: there is only advice.

    :param model: Anything that `open_model` opens; a plain encoder needs a corpus.
    :param dev: A file of scored pairs (see `read_scored_pairs`) or several, a list of `ScoredPair`, or lists
        by name. Each needs at least 30 pairs, and is scored by Spearman's correlation or, if its labels are
        yes/no (two different scores), by average precision, with the weights of a column "weight" where a
        file has one; the scores of several sets are averaged.
    :param corpus: The corpus to draw a reference corpus from, for an encoder that has none.
    :param size: How many sentences to draw.
    :param progress: Show progress bars; by default on a terminal.
    :param opening: How to run a model that is loaded by name, as for `open_model`.

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
    check_pairs(sets)
    watched = sys.stderr.isatty() if progress is None else progress
    opened = open_model(model, **opening)
    if not isinstance(opened, RankEncoder):
        if corpus is None:
            raise InputError(f"{opened.name} is a plain encoder: set `corpus` to sentences of your data")
        reference = Reference.build(opened, corpus, size=size, progress=watched)
        opened = RankEncoder(opened, reference, progress=False)
    elif corpus is not None:
        raise InputError("a RankEncoder has its own reference corpus: leave `corpus` out")
    encoder, form = opened.encoder, opened.form
    if not sets:
        halves = score_half_matching(encoder, opened.reference.sentences, form.reference)
        return Tuned(opened, halves=halves)
    choice = choose_similarity(encoder, form, opened.rank_weight, sets, progress=watched)
    return Tuned(_apply(opened, choice.chosen), choice)


def _read_dev(dev: Any) -> dict[str, list[ScoredPair]]:
    """Return the scored pairs of each set by name: files by their path."""
    if isinstance(dev, Mapping):
        return {name: [_make(pair, name) for pair in pairs] for name, pairs in dev.items()}
    given = [dev] if isinstance(dev, (str, Path)) else list(dev)
    if all(isinstance(one, (str, Path)) for one in given):
        return {str(file): read_scored_pairs(file) for file in given}
    return _read_dev({"pairs": given})


def _make(pair: Any, name: str) -> ScoredPair:
    try:
        a, b, score, weight = pair if len(pair) == 4 else (*pair, 1.0)
    except (TypeError, ValueError):
        raise InputError(f"{name}: a scored pair is two sentences and a score, not {pair!r}") from None
    return make_pair(a, b, score, name, weight)


def _apply(model: RankEncoder, candidate: Candidate) -> RankEncoder:
    """Return a model with the candidate's similarity; the given one is unchanged."""
    if candidate.form is None or candidate.uses(model.form):
        changed = copy.copy(model)
    else:
        changed = model.with_form(candidate.form, **candidate.settings)
    changed.rank_weight = candidate.rank_weight
    return changed
