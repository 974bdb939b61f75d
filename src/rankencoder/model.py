"""`RankEncoder`: any encoder plus a reference corpus, used as one encoder."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rankencoder import persistence
from rankencoder.blend import blend_vectors, blended_dimension, check_rank_weight, reweight_vectors
from rankencoder.encoder_sources import rankencoder_folder
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.explain import EncodedSentence, Explanation, Neighbor, explain_pair, nearest
from rankencoder.fingerprints import digest
from rankencoder.forms import Form, check_settings, fit_form
from rankencoder.forms.fidelity import measure_form
from rankencoder.fused_encoder import FusedEncoder, open_encoder
from rankencoder.io.corpus import check_sentences
from rankencoder.persistence import ModelParts
from rankencoder.ranks import rank_vectors
from rankencoder.reference import Reference, warn_if_small

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from typing_extensions import Unpack

    from rankencoder.backends.backend import Backend
    from rankencoder.backends.opening import Opening
    from rankencoder.encoders import EncoderLike
    from rankencoder.fused_encoder import Encoders

    Sentences = str | Iterable[str]

RANK_WEIGHT = 0.1
logger = logging.getLogger(__name__)


class RankEncoder:
    """An encoder whose vectors also represent how a sentence ranks a reference corpus.

    Its vectors are plain unit vectors whose cosine is the paper's Eq. 7, for use with any vector database.

    :param encoder: Anything that `Encoder` opens: a SentenceTransformer, its folder or hub name, a callable
        from a list of strings to an array with one row per string, or an object with such an ``encode``. A
        list of these is fused into one encoder (see `FusedEncoder`).
    :param reference: A `Reference` made by the same encoder, or a corpus to sample 10,000 sentences from (use
        `Reference.build` for another number).
    :param form: "exact" (one dimension per reference sentence, as in the paper), "compact" (their principal
        components) or "linear" (the reference's covariance to a power; no ranks and no corpus at inference).
    :param dim: Dimensions of the compact form, 256 by default.
    :param power: Power of the linear form: +½ (the default) approximates ranks, 0 is the plain cosine, −½
        whitening.
    :param center: Whether the linear form subtracts the mean first; by default for negative powers.
    :param rank_weight: λ of Eq. 7, from 0 (cosine only) to 1 (ranks only). By default 0.1, or 0 for several
        encoders.
    :param prompt: Text to prepend to every sentence, as E5 and BGE need it.
    :param revision: The branch, tag or commit of a hub name.
    :param progress: Show progress bars; by default on a terminal.
    :param opening: ``device``, ``batch_size``, ``backend`` and ``precision`` for an encoder that is not open
        yet, as for `Encoder`.

    >>> def letters(texts):  # any function from strings to vectors is an encoder
    ...     return [[1 + text.count(c) for c in "aeiou"] for text in texts]
    >>> corpus = [f"sentence number {i}" + "aeiou"[i % 5] * i for i in range(1200)]
    >>> model = RankEncoder(letters, corpus, form="exact", rank_weight=0.5, progress=False)
    >>> vectors = model.encode(["a banana", "an avocado", "unit"])
    >>> vectors.shape  # one dimension per reference sentence, plus the encoder's own 5
    (3, 1205)
    >>> similarity = model.similarity("a banana", ["an avocado", "unit"])
    >>> bool(similarity[0, 0] > similarity[0, 1])
    True
    """

    def __init__(
        self,
        encoder: Encoders,
        reference: Reference | Any,
        *,
        form: str = "compact",
        dim: int | None = None,
        power: float | None = None,
        center: bool | None = None,
        rank_weight: float | None = None,
        prompt: str = "",
        revision: str | None = None,
        progress: bool | None = None,
        **opening: Unpack[Opening],
    ) -> None:
        self.rank_weight = RANK_WEIGHT if rank_weight is None else rank_weight
        check_settings(form, dim=dim, power=power, center=center)
        watched = sys.stderr.isatty() if progress is None else progress
        opened = open_encoder(encoder, prompt=prompt, revision=revision, **opening)
        if isinstance(reference, Reference):
            reference.check_encoder(opened)
        else:
            reference = Reference.build(opened, reference, progress=watched)
        if isinstance(opened, FusedEncoder):
            if not opened.is_weighted:
                opened = opened.standardized(reference.vectors)
            vectors, probe = opened.reweight(reference.vectors), opened.reweight(reference.probe)
            reference = replace(reference, vectors=vectors, probe=probe)
            self.rank_weight = rank_weight or 0
            if self.rank_weight:
                warn_if_small(len(reference))
        self.encoder: Encoder = opened
        self.reference: Reference = reference
        self.name = f"RankEncoder on {opened.name}"
        rows = torch.from_numpy(reference.vectors).to(opened.device)
        self.form: Form = fit_form(form, rows, dim=dim, power=power, center=center)
        self.fidelity = measure_form(self.form)
        logger.debug("fidelity of the %s form to exact rank similarities: %s", form, self.fidelity)

    def _parts(self) -> ModelParts:
        return ModelParts(self.encoder, self.reference, self.form, self.fidelity, self.rank_weight)

    def with_form(self, form: str, **settings: Any) -> RankEncoder:
        """Return the same encoder and reference corpus in another form, without encoding anything.

        :param settings: ``dim`` (compact), ``power`` and ``center`` (linear).
        """
        changed = copy.copy(self)
        changed.form = fit_form(form, self.form.reference, **settings)
        changed.fidelity = measure_form(changed.form)
        changed.name = f"RankEncoder on {self.encoder.name}"
        return changed

    @property
    def rank_weight(self) -> float:
        """λ of Eq. 7; can be set at any time, without encoding anything."""
        return self._rank_weight

    @rank_weight.setter
    def rank_weight(self, value: float) -> None:
        self._rank_weight = check_rank_weight(value)

    @property
    def dimension(self) -> int:
        """Dimensions of the vectors: those of the rank part and of the encoder, if they have weight."""
        return blended_dimension(self.form.dimension, self.form.reference.shape[1], self.rank_weight)

    @property
    def device(self) -> torch.device:
        """The device that the encoder runs on."""
        return self.encoder.device

    @property
    def backend(self) -> Backend:
        """The backend that computes the encoder's vectors, with its fidelity."""
        return self.encoder.backend

    def fingerprint(self) -> str:
        """Return a digest of model and backend, the same on all hardware."""
        return self._digest(self.encoder.fingerprint())

    def identity(self) -> str:
        """Return a digest of the model without its backend."""
        return self._digest(self.encoder.identity())

    def _digest(self, encoder: str) -> str:
        settings = repr((self.form.name, self.form.config(), self.rank_weight))
        return digest([encoder, settings, *self.reference.sentences])

    def __repr__(self) -> str:
        return (
            f"RankEncoder(encoder={self.encoder.name!r}, reference={len(self.reference):,} sentences, "
            f"form={self.form.name!r}, rank_weight={self.rank_weight}, dimension={self.dimension})"
        )

    def encode(self, sentences: Sentences, *, progress: bool = False) -> np.ndarray:
        """Return one unit vector per sentence whose plain cosine is Eq. 7.

        :return: ``[dimension]`` for one sentence, ``[number, dimension]`` for several, float32.
        :raises InputError: If a sentence is empty or far too long, or the encoder fails on one.
        """
        vectors = self.blend(self._base_vectors(sentences, progress=progress)).cpu().numpy()
        return np.asarray(vectors[0] if isinstance(sentences, str) else vectors)

    def blend(self, base: torch.Tensor) -> torch.Tensor:
        """Return the vectors of `encode`, given the encoder's own unit vectors."""
        ranks = self.form(base) if self.rank_weight > 0 else base
        return blend_vectors(ranks, base, self.rank_weight)

    def _base_vectors(self, sentences: Sentences, *, progress: bool = False) -> torch.Tensor:
        checked = check_sentences(sentences)
        if not checked:
            return torch.zeros(0, self.form.reference.shape[1], device=self.encoder.device)
        vectors = self.encoder(checked, progress=progress)
        if vectors.device != self.form.reference.device:
            self.form.to(vectors.device)  # the encoder was moved
        return vectors

    def rank_vectors(self, sentences: Sentences) -> np.ndarray:
        """Return the exact rank vectors (Eq. 2-3), one dimension per reference sentence, for any form.

        :return: ``[n]`` for one sentence, ``[number, n]`` for several.
        """
        similarities = self.form.similarities(self._base_vectors(sentences))
        ranks = rank_vectors(similarities, method="exact").cpu().numpy()
        return ranks[0] if isinstance(sentences, str) else ranks

    def reweight(self, vectors: np.ndarray, rank_weight: float) -> np.ndarray:
        """Convert vectors of `encode` to another rank weight, without encoding anything.

        :raises InputError: If the current rank weight is 0 or 1, because the vectors then lack one part.
        """
        rows = torch.from_numpy(np.ascontiguousarray(self._as_vectors(vectors)))
        new = reweight_vectors(rows, self.form.dimension, self.rank_weight, check_rank_weight(rank_weight))
        return new.numpy() if vectors.ndim > 1 else new.numpy()[0]

    def similarity(self, a: Sentences | np.ndarray, b: Sentences | np.ndarray) -> np.ndarray:
        """Return Eq. 7 between all sentences (or vectors of `encode`) of ``a`` and ``b``, as a matrix."""
        return np.asarray(self._as_vectors(a) @ self._as_vectors(b).T)

    def similarity_pairwise(self, a: Sentences | np.ndarray, b: Sentences | np.ndarray) -> np.ndarray:
        """Return Eq. 7 for each sentence of ``a`` with the one at the same position of ``b``."""
        left, right = self._as_vectors(a), self._as_vectors(b)
        if len(left) != len(right):
            raise InputError(f"{len(left)} sentences cannot be paired with {len(right)}")
        return np.asarray((left * right).sum(axis=1))

    def _as_vectors(self, given: Sentences | np.ndarray) -> np.ndarray:
        if not isinstance(given, np.ndarray) or given.dtype.kind != "f":
            return np.atleast_2d(self.encode(given))
        if given.ndim not in (1, 2) or given.shape[-1] != self.dimension:
            raise InputError(
                f"expected vectors of {self.dimension} dimensions from encode, got {list(given.shape)}"
            )
        return np.atleast_2d(given)

    def neighbors(self, sentence: str, k: int = 10) -> list[Neighbor]:
        """Return the k reference sentences with the largest cosine to a sentence, nearest first."""
        return nearest(self._base_vectors(sentence)[0], self.form.reference, self.reference.sentences, k)

    def explain(self, a: str, b: str, k: int = 100) -> Explanation:
        """Explain the similarity of two sentences: the paper's Figure 1 as data.

        :param k: Number of nearest neighbors of each sentence among which to find shared ones.
        """
        first, second = self.describe([a, b], k)
        return explain_pair(first, second, self.rank_weight, k)

    def describe(self, sentences: list[str], k: int) -> list[EncodedSentence]:
        """Encode sentences and find their k nearest reference sentences, for `explain`."""
        vectors = self._base_vectors(sentences)
        near = [nearest(vector, self.form.reference, self.reference.sentences, k) for vector in vectors]
        return [
            EncodedSentence(*row) for row in zip(sentences, vectors, self.form(vectors), near, strict=True)
        ]

    def save(self, folder: str | Path, *, overwrite: bool = False, measured: Sequence[str] = ()) -> None:
        """Save encoder, reference corpus, form and model card to a folder, atomically.

        A callable encoder is not saved: pass it to `load` again.

        :param measured: Additional lines of measurements for the model card.
        """
        persistence.save(self._parts(), Path(folder), overwrite=overwrite, measured=measured)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        encoder: EncoderLike | Encoder | Sequence[EncoderLike | Encoder | None] | None = None,
        *,
        revision: str | None = None,
        **opening: Unpack[Opening],
    ) -> RankEncoder:
        """Load a saved RankEncoder.

        :param folder: Its folder, its training run, or its hub name.
        :param encoder: The encoder, if it was a callable, or to use another copy of it. For several encoders,
            a list with None for each one that is on disk.
        :param revision: The branch, tag or commit of a hub name.
        :param opening: ``device``, ``batch_size``, ``backend`` and ``precision``, as for `Encoder`.
        :raises InputError: If the folder is incomplete or damaged, or the encoder does not match.
        """
        found = rankencoder_folder(folder, revision) or Path(folder)
        parts = persistence.load(found, encoder, **opening)
        model = cls.__new__(cls)
        model.encoder, model.reference, model.form = parts.encoder, parts.reference, parts.form
        model.fidelity, model.rank_weight, model.name = parts.fidelity, parts.rank_weight, str(folder)
        return model

    def to_sentence_transformer(self) -> SentenceTransformer:
        """Return an ordinary SentenceTransformer with (nearly) these similarities as plain cosines.

        The linear form becomes one dense layer after the encoder, which loads anywhere without custom code.
        It blends before normalizing, so it is close to Eq. 7, not equal; the model card says how close. The
        other forms, and several encoders in any form, become modules of this package: equal to `encode`, but
        loading them needs rankencoder and ``trust_remote_code=True``.

        :raises InputError: If the encoder is a callable, which a SentenceTransformer cannot contain.
        """
        from rankencoder.modules import to_sentence_transformer

        return to_sentence_transformer(self._parts())


def open_model(
    source: EncoderLike | Encoder | RankEncoder,
    *,
    prompt: str = "",
    **opening: Unpack[Opening],
) -> RankEncoder | Encoder:
    """Open a RankEncoder or encoder.

    :param source: The folder of a RankEncoder or of a training run (its RankEncoder, if any, else its
        encoder); anything that `Encoder` opens; or an open RankEncoder or Encoder, which is returned as is.
    :param prompt: Text to prepend to every sentence; a saved RankEncoder has its own.
    :param opening: ``device``, ``batch_size``, ``backend`` and ``precision``, as for `Encoder`.
    """
    if isinstance(source, (RankEncoder, Encoder)):
        return source
    folder = rankencoder_folder(source)
    if folder is None:
        return Encoder(source, prompt=prompt, **opening)
    model = RankEncoder.load(folder, **opening)
    if not Path(str(source)).exists():
        model.name = str(source)  # the hub name, not the folder in its cache
    if prompt not in ("", model.encoder.prompt):
        raise InputError(f"{folder} was built with the prompt {model.encoder.prompt!r}: leave `prompt` out")
    return model


def open_rankencoder(source: EncoderLike | Encoder | RankEncoder, **opening: Unpack[Opening]) -> RankEncoder:
    """Open a RankEncoder (see `open_model`)."""
    model = open_model(source, **opening)
    if not isinstance(model, RankEncoder):
        raise InputError(f"{model.name} is a plain encoder: build a RankEncoder from it first")
    return model
