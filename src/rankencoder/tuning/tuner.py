"""Tuning: which similarity suits an encoder, measured on scored pairs; where there are none, advice."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.evaluation.pairwise import encode_pairs
from rankencoder.io.storage import new_folder, write_json
from rankencoder.tuning.candidates import Candidate, apply_candidate, candidate_similarities, candidates_for
from rankencoder.tuning.choice import Choice, Result, choose
from rankencoder.tuning.diagnosis import Diagnosis, diagnose
from rankencoder.tuning.sources import open_model, read_dev
from rankencoder.tuning.validation import DevSet, check_pairs

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder, EncoderLike
    from rankencoder.evaluation.sts_data import PairSet
    from rankencoder.evaluation.subjects import Subject
    from rankencoder.forms import Form
    from rankencoder.io.pairs import ScoredPair
    from rankencoder.model import RankEncoder
    from rankencoder.tuning.sources import Dev

__all__ = [
    "Candidate",
    "Choice",
    "DevSet",
    "Diagnosis",
    "Result",
    "Tuned",
    "choose",
    "choose_for",
    "diagnose",
    "tune",
]

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
        return str(self.choice or self.diagnosis)

    def to_dict(self) -> dict[str, Any]:
        """Return choice and diagnosis as plain data."""
        return {
            "encoder": self.model.encoder.name,
            "reference_size": len(self.model.reference),
            "choice": self.choice and self.choice.to_dict(),
            "diagnosis": self.diagnosis.to_dict(),
        }

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the model to a folder, for `RankEncoder.load`, with a record of the choice in tuning.json.

        :raises InputError: If the folder exists and is not to be overwritten.
        """
        with new_folder(folder, overwrite=overwrite) as new:
            self.model.save(new, overwrite=True)
            write_json(new / RECORD, self.to_dict())


def tune(
    model: RankEncoder | EncoderLike,
    dev: Dev = (),
    *,
    corpus: Any = None,
    size: int = 10_000,
    seed: int = 0,
    device: str | None = None,
    batch_size: int = 32,
    progress: bool | None = None,
) -> Tuned:
    """Choose the similarity of an encoder on scored pairs: plain cosine, ranks, powers, or blends of them.

    Plain cosine is kept unless another is better by more than chance in cross-validation, the luck of
    choosing counted in. Without scored pairs nothing is chosen: the diagnosis gives advice.

    :param model: A RankEncoder, its folder, the folder of a training, or, with a corpus, an encoder: a
        SentenceTransformer, its folder or hub name, or a callable.
    :param dev: A file of scored pairs (see `read_scored_pairs`), a list of `ScoredPair`, or
        several of these (a list, or by name), whose correlations are averaged. Each needs at least 30 pairs.
    :param corpus: The corpus to draw a reference corpus from, for an encoder that has none.
    :param size: How many sentences to draw.
    :param seed: Draws other folds.
    :param device: Where to run an encoder that is loaded by name.
    :param batch_size: Sentences per call of an encoder that is not a RankEncoder yet.
    :param progress: Show progress bars; by default on a terminal.
    :raises InputError: If model, corpus or pairs are not usable, or the pairs too few.

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
    sets = read_dev(dev)
    for name, pairs in sets.items():
        check_pairs(name, pairs)
    watched = sys.stderr.isatty() if progress is None else progress
    opened = open_model(model, corpus, size=size, device=device, batch_size=batch_size, progress=watched)
    diagnosis = diagnose(opened)
    if not sets:
        return Tuned(opened, None, diagnosis)
    choice = _choose(opened.encoder, opened.form, opened.rank_weight, sets, seed=seed, progress=watched)
    return Tuned(apply_candidate(opened, choice.chosen), choice, diagnosis)


def choose_for(subject: Subject, sets: Sequence[PairSet]) -> dict[str, Any]:
    """Choose the similarity of one subject of an evaluation, as `tune` does.

    :return: What `Choice.to_dict` gives; only its "sentence", with the reason, where nothing can be chosen.
    """
    assert subject.form is not None
    try:
        pairs = {one.name: one.pairs for one in sets}
        for name, some in pairs.items():
            check_pairs(name, some)
        return _choose(subject.encoder, subject.form, subject.rank_weight, pairs).to_dict()
    except InputError as error:
        return {"sentence": f"Nothing was chosen. {error}"}


def _choose(
    encoder: Encoder,
    form: Form,
    rank_weight: float,
    sets: dict[str, list[ScoredPair]],
    *,
    seed: int = 0,
    progress: bool = False,
) -> Choice:
    """Encode every sentence once, let all candidates score all pairs, and choose."""
    candidates = candidates_for(form, rank_weight)
    encoded = encode_pairs(encoder, [pair for pairs in sets.values() for pair in pairs], progress=progress)
    similarities = candidate_similarities(form, candidates, encoded)
    parts = np.split(similarities, np.cumsum([len(pairs) for pairs in sets.values()])[:-1], axis=1)
    scored = [DevSet(name, sets[name], part) for name, part in zip(sets, parts, strict=True)]
    return choose(scored, candidates, seed=seed)
