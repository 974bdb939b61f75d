"""What is evaluated: an encoder, a RankEncoder or a training run, and the similarities that it offers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.blend import blend
from rankencoder.encoders import Encoder, check_encoder_name
from rankencoder.errors import InputError
from rankencoder.evaluation.embeddings import CachedEncoder, digest
from rankencoder.evaluation.pairwise import encode_pairs, pair_similarities
from rankencoder.forms import fit_form
from rankencoder.io.pairs import told_at
from rankencoder.io.storage import RUN, check_kinds, read_json
from rankencoder.model import RANK_WEIGHT, RankEncoder
from rankencoder.persistence import CONFIG
from rankencoder.reference import SIZE, Reference

if TYPE_CHECKING:
    from rankencoder.encoders import EncoderLike
    from rankencoder.evaluation.sts_data import PairSet
    from rankencoder.forms import Form

    Source = EncoderLike | RankEncoder

_GENERIC = ("model", "models", "encoder", "base", "rankencoder")
SEEDS = ("seed", "stage2_seed", "reference_seed", "output")
"""Settings in which runs of one group may differ."""


@dataclass
class Subject:
    """One encoder and, where there is a reference corpus, its rank part.

    :param role: "E1" or "E2" of a training run, otherwise empty.
    """

    role: str
    encoder: CachedEncoder
    sentences: list[str] = field(default_factory=list)
    form: Form | None = None
    rank_weight: float = RANK_WEIGHT

    def similarity_names(self) -> dict[str, str]:
        """Return what to call each kind of similarity that there is: cosine, ranks, blend."""
        kinds = {"cosine": "cosine"}
        if self.form is not None:
            kinds |= {"ranks": self.form.label, "blend": f"blend {self.rank_weight:g}"}
        return {kind: f"{self.role} {name}".strip() for kind, name in kinds.items()}

    @property
    def fingerprint(self) -> str:
        """A hash of encoder, reference corpus, form and rank weight."""
        parts = [self.role, self.encoder.fingerprint()]
        if self.form is not None:
            settings = repr((self.form.name, self.form.config(), self.rank_weight))
            parts += [settings, digest(self.sentences)]
        return digest(parts)

    def similarities(self, pair_set: PairSet, *, progress: bool = False) -> dict[str, np.ndarray]:
        """Return each kind of similarity of the pairs of a set."""
        encoded = encode_pairs(self.encoder, pair_set.pairs, progress=progress)
        found = {"cosine": pair_similarities(None, encoded)}
        if self.form is not None:
            form = self.form
            key = digest([self.fingerprint, pair_set.fingerprint])
            ranks = self.encoder.remember(key, len(pair_set.pairs), lambda: pair_similarities(form, encoded))
            found |= {"ranks": ranks, "blend": blend(ranks, found["cosine"], self.rank_weight)}
        return found


@dataclass
class Model:
    """Something to evaluate, with what is known about it."""

    label: str
    kind: str
    path: str
    subjects: list[Subject]
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def seed(self) -> int | None:
        """The seed of a training run."""
        value = self.record.get("config", {}).get("seed")
        return None if value is None else int(value)

    @property
    def group(self) -> str:
        """The same for runs that differ in nothing but their seeds."""
        if not self.record:
            return self.fingerprint
        config = {key: value for key, value in self.record["config"].items() if key not in SEEDS}
        return digest([repr(sorted(config.items()))])

    @property
    def fingerprint(self) -> str:
        """A hash of encoders, reference corpora and forms."""
        return digest([subject.fingerprint for subject in self.subjects])


def check_model(source: Source) -> None:
    """Look whether a model that is given by name is there, without loading it.

    :raises InputError: If it is not.
    """
    if isinstance(source, (str, Path)) and not any((Path(source) / name).exists() for name in (RUN, CONFIG)):
        check_encoder_name(str(source))


def open_model(
    source: Source,
    *,
    corpus: Any = None,
    size: int = SIZE,
    device: str | None = None,
    batch_size: int = 32,
    cache: Path | None = None,
    progress: bool = False,
) -> Model:
    """Open whatever can be evaluated.

    :param source: A RankEncoder or its folder, the folder of a training run, or an encoder: a
        SentenceTransformer, its folder or hub name, or a callable.
    :param corpus: Where a plain encoder's reference corpus is drawn from; without one, only its cosine can
        be scored.
    :param size: Sentences of that reference corpus.
    :param cache: Where vectors are kept.
    :raises InputError: If it is none of these.
    """
    options: dict[str, Any] = {"device": device, "batch_size": batch_size}
    if isinstance(source, RankEncoder):
        name = Path(source.encoder.name).name
        return Model(name, "rankencoder", source.encoder.name, [_of_rank_encoder(source, "", cache)])
    if isinstance(source, (str, Path)):
        folder = Path(source)
        if (folder / RUN).exists():
            return _open_run(folder, options, cache, progress)
        if (folder / CONFIG).exists():
            loaded = RankEncoder.load(folder, **options)
            return Model(_name(folder), "rankencoder", str(folder), [_of_rank_encoder(loaded, "", cache)])
    encoder = CachedEncoder(Encoder(source, **options), cache)
    subject = Subject("", encoder)
    if corpus is not None:
        subject = _with_reference(subject, Reference.build(encoder, corpus, size=size, progress=progress))
    return Model(_name(encoder.name), "encoder", encoder.name, [subject])


def _name(path: str | Path) -> str:
    """Return what to call a model: its hub name or folder, with the one above where that says little."""
    folder = Path(path)
    if not folder.exists():
        return str(path)
    folder = folder.resolve()
    return f"{folder.parent.name}/{folder.name}" if folder.name in _GENERIC else folder.name


def _of_rank_encoder(model: RankEncoder, role: str, cache: Path | None) -> Subject:
    encoder = CachedEncoder(model.encoder, cache)
    return Subject(role, encoder, model.reference.sentences, model.form, model.rank_weight)


def _with_reference(subject: Subject, reference: Reference) -> Subject:
    import torch

    vectors = torch.from_numpy(reference.vectors).to(subject.encoder.device)
    form = fit_form("exact", vectors)
    return Subject(subject.role, subject.encoder, reference.sentences, form, subject.rank_weight)


def _open_run(folder: Path, options: dict[str, Any], cache: Path | None, progress: bool) -> Model:
    """Open E1 and E2 of a training run, both with the reference corpus of E2's RankEncoder."""
    record = read_json(folder / RUN)
    if not record.get("finished"):
        raise InputError(f"{folder} holds an unfinished training: rankencoder train --resume -o {folder}")
    check_kinds(record, folder / RUN, config=dict)
    if record["config"].get("seed") is not None:
        check_kinds(record["config"], folder / RUN, seed=int)
    subjects = []
    second = None
    if (folder / "rankencoder").is_dir():
        second = RankEncoder.load(folder / "rankencoder", **options)
    first = folder / "base"
    if not first.is_dir():
        given = record["config"].get("base_encoder") or []
        given = [given] if isinstance(given, str) else given
        one = isinstance(given, list) and len(given) == 1 and isinstance(given[0], str)
        first = Path(given[0]) if one else first  # of several, none is the one
    if os.path.isdir(first):  # a name of any length
        with told_at(str(folder)):
            encoder = CachedEncoder(Encoder(first, **options), cache)
        subject = Subject("E1", encoder)
        if second is not None:
            subject = _encoded_by(subject, second, progress)
        subjects.append(subject)
    if second is not None:
        subjects.append(_of_rank_encoder(second, "E2", cache))
    if not subjects:
        raise InputError(f"{folder} holds no encoder: its base and rankencoder folders are missing")
    return Model(_name(folder), "run", str(folder), subjects, record)


def _encoded_by(subject: Subject, other: RankEncoder, progress: bool) -> Subject:
    """Give an encoder the reference sentences, the form and the rank weight of another RankEncoder."""
    sentences = other.reference.sentences
    vectors = subject.encoder(sentences, progress=progress)
    form = fit_form(other.form.name, vectors, **other.form.config())
    return Subject(subject.role, subject.encoder, sentences, form, other.rank_weight)
