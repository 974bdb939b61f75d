"""Models to evaluate: encoders, RankEncoders and training runs, with their similarities."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rankencoder.blend import blend
from rankencoder.encoder_sources import split_prompt
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError, located
from rankencoder.evaluation.pairwise import encode_pairs, pair_similarities
from rankencoder.evaluation.vector_cache import CachedEncoder
from rankencoder.fingerprints import digest
from rankencoder.forms import fit_form
from rankencoder.io.storage import RUN, check_kinds, read_json
from rankencoder.model import RANK_WEIGHT, RankEncoder, open_model
from rankencoder.reference import SIZE, Reference

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.opening import Opening
    from rankencoder.encoders import EncoderLike
    from rankencoder.evaluation.sts_data import PairSet
    from rankencoder.forms import Form

    Source = EncoderLike | RankEncoder

_GENERIC = ("model", "models", "encoder", "base", "rankencoder")
SEEDS = ("seed", "stage2_seed", "reference_seed", "output")  # settings in which runs of one group may differ


@dataclass
class Subject:
    """One encoder ("E1" or "E2" of a training run) and, where there is a reference corpus, its rank part."""

    role: str
    encoder: CachedEncoder
    sentences: list[str] = field(default_factory=list)
    form: Form | None = None
    rank_weight: float = RANK_WEIGHT

    def similarity_names(self) -> dict[str, str]:
        """Return the display name of each kind of similarity: cosine, ranks, blend."""
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
            ranks = pair_similarities(self.form, encoded)
            found |= {"ranks": ranks, "blend": blend(ranks, found["cosine"], self.rank_weight)}
        return found


@dataclass
class Model:
    """A model to evaluate, with the record of its training."""

    label: str
    kind: str
    path: str
    subjects: list[Subject]
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def seed(self) -> int | None:
        """The seed of a training run."""
        seed: int | None = self.record.get("config", {}).get("seed")
        return seed

    @property
    def group(self) -> str:
        """A hash that runs share if they differ only in their seeds."""
        if not self.record:
            return self.fingerprint
        config = {key: value for key, value in self.record["config"].items() if key not in SEEDS}
        return digest([repr(sorted(config.items()))])

    @property
    def fingerprint(self) -> str:
        """A hash of encoders, reference corpora and forms."""
        return digest([subject.fingerprint for subject in self.subjects])


def open_subjects(
    source: Source,
    *,
    corpus: Any = None,
    size: int = SIZE,
    cache: Path | None = None,
    progress: bool = False,
    **options: Unpack[Opening],
) -> Model:
    """Open a training run (E1 and E2), or anything that `open_model` opens.

    :param corpus: The corpus to draw a plain encoder's reference corpus from; without one, only cosine can
        be scored.
    """
    if isinstance(source, (str, Path)) and (Path(source) / RUN).exists():
        return _open_run(Path(source), options, cache, progress)
    opened = open_model(source, **options)
    if isinstance(opened, RankEncoder):
        path = str(source) if isinstance(source, (str, Path)) else opened.encoder.name
        return Model(_label(path), "rankencoder", path, [_ranked("", opened, cache)])
    encoder = CachedEncoder(opened, cache)
    subject = Subject("", encoder)
    if corpus is not None:
        reference = Reference.build(encoder, corpus, size=size, progress=progress)
        vectors = torch.from_numpy(reference.vectors).to(encoder.device)
        subject = Subject("", encoder, reference.sentences, fit_form("exact", vectors))
    return Model(_label(encoder.name), "encoder", encoder.name, [subject])


def _label(path: str) -> str:
    """Return a model's hub name or folder, with its parent where the folder's name is generic."""
    if not os.path.exists(path):
        return path
    folder = Path(path).resolve()
    return f"{folder.parent.name}/{folder.name}" if folder.name in _GENERIC else folder.name


def _ranked(role: str, model: RankEncoder, cache: Path | None) -> Subject:
    encoder = CachedEncoder(model.encoder, cache)
    return Subject(role, encoder, model.reference.sentences, model.form, model.rank_weight)


def _open_run(folder: Path, options: Opening, cache: Path | None, progress: bool) -> Model:
    """Open E1 and E2 of a training run, both with the reference corpus of E2's RankEncoder."""
    record = read_json(folder / RUN)
    if not record.get("finished"):
        raise InputError(f"{folder} holds an unfinished training: resume it first")
    check_kinds(record, folder / RUN, config=dict)
    if record["config"].get("seed") is not None:
        check_kinds(record["config"], folder / RUN, seed=int)
    subjects = []
    ranked = folder / "rankencoder"
    second = RankEncoder.load(ranked, **options) if ranked.is_dir() else None
    first = _first_encoder(folder, record["config"])
    if os.path.isdir(split_prompt(first)[0]):  # a name of any length
        with located(str(folder)):
            encoder = CachedEncoder(Encoder(first, **options), cache)
        subject = Subject("E1", encoder)
        if second is not None:
            sentences = second.reference.sentences
            form = fit_form(second.form.name, encoder(sentences, progress=progress), **second.form.config())
            subject = Subject("E1", encoder, sentences, form, second.rank_weight)
        subjects.append(subject)
    if second is not None:
        subjects.append(_ranked("E2", second, cache))
    if not subjects:
        raise InputError(f"{folder} holds no encoder: its base and rankencoder folders are missing")
    return Model(_label(str(folder)), "run", str(folder), subjects, record)


def _first_encoder(folder: Path, config: dict[str, Any]) -> str:
    """Return the path of a run's E1: in its folder, or the base encoder that it was given."""
    given = config.get("base_encoder") or []
    given = [given] if isinstance(given, str) else given
    is_one = isinstance(given, list) and len(given) == 1 and isinstance(given[0], str)
    return str(folder / "base") if (folder / "base").is_dir() or not is_one else given[0]
