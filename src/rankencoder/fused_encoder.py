"""Fuse several encoders into one, without training: their cosines are averaged, weighted by 1/σ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from rankencoder.encoder_sources import rankencoder_folder
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.fingerprints import digest
from rankencoder.progress import Progress

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.backend import Backend
    from rankencoder.backends.opening import Opening
    from rankencoder.encoders import EncoderLike

    AnyEncoder = EncoderLike | Encoder
    Encoders = AnyEncoder | Sequence[AnyEncoder]

PAIRS = 100_000  # random pairs for the mean and standard deviation of cosines
_SEED = 42
_CONSTANT = 1e-6  # standard deviation of cosines that differ only by rounding


def random_pairs(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays of row indices, the same at every call: random pairs of distinct rows.

    >>> a, b = random_pairs(3)
    >>> len(a), bool((a == b).any())
    (100000, False)
    """
    draw = np.random.default_rng(_SEED)
    first = draw.integers(rows, size=PAIRS)
    return first, (first + draw.integers(1, rows, size=PAIRS)) % rows


def random_cosines(vectors: np.ndarray) -> np.ndarray:
    """Return the cosines of random pairs of unit vectors, in float64."""
    cosines = np.empty(PAIRS)
    first, second = random_pairs(len(vectors))
    for start in range(0, PAIRS, 4096):
        part = slice(start, start + 4096)
        a, b = (np.asarray(vectors[rows[part]], dtype=np.float64) for rows in (first, second))
        cosines[part] = (a * b).sum(axis=1)
    return cosines


def fuse_vectors(vectors: Sequence[torch.Tensor], weights: Sequence[float]) -> torch.Tensor:
    """Return [√w_1 · ê_1 ; … ; √w_k · ê_k], unit vectors whose cosine is Σ w_i cos_i."""
    return torch.cat([rows * weight**0.5 for rows, weight in zip(vectors, weights, strict=True)], dim=1)


class FusedEncoder(Encoder):
    """Several encoders as one, whose cosine is the weighted mean of theirs.

    With the weights of `standardized` it ranks pairs like the mean of the members' standardized cosines.

    :param members: Encoders of any dimension, each with its own prompt.
    :param weights: Positive weight of each member's cosine, scaled to sum to 1. By default all are equal
        until a `RankEncoder` standardizes the cosines on its reference corpus.
    """

    def __init__(self, members: Sequence[Encoder], weights: Sequence[float] | None = None) -> None:
        self.members = list(members)
        self.is_weighted = weights is not None
        given = [1.0] * len(members) if weights is None else list(weights)
        if len(given) != len(members) or not all(0 < weight < math.inf for weight in given):
            raise InputError(
                f"`weights` must be {len(members)} positive numbers, one for each encoder, not {given}"
            )
        total = sum(given)
        self.weights = given if math.isclose(total, 1) else [weight / total for weight in given]
        self.model = None
        self.function = None
        self.prompt = ""
        self.name = " + ".join(member.name for member in members)

    @cached_property
    def dimension(self) -> int:
        """Dimensions of the vectors: the sum over all members."""
        return sum(member.dimension for member in self.members)

    @property
    def device(self) -> torch.device:
        """Device of the vectors: the first member's."""
        return self.members[0].device

    @property
    def batch_size(self) -> int:
        """Sentences per call of each member."""
        return self.members[0].batch_size

    @batch_size.setter
    def batch_size(self, value: int) -> None:
        for member in self.members:
            member.batch_size = value

    def raw(self, sentences: Sequence[str], *, progress: bool = False) -> torch.Tensor:
        """Encode sentences with every member and fuse the vectors."""
        bar = Progress(len(self.members), desc="Fusing", unit="encoders", show=False)
        rows = [member(sentences, progress=progress).to(self.device) for member in bar.over(self.members)]
        return fuse_vectors(rows, self.weights)

    def count_tokens(self, sentences: Sequence[str]) -> tuple[list[int], float]:
        """Return how many tokens of each sentence all members together read."""
        read = []
        for counts, limit in (member.count_tokens(sentences) for member in self.members):
            read.append([int(min(count, limit)) for count in counts])
        return [sum(counts) for counts in zip(*read, strict=True)], float("inf")

    @property
    def backend(self) -> Backend:
        """The least faithful backend of all members."""
        return min((member.backend for member in self.members), key=lambda one: one.fidelity)

    def fingerprint(self) -> str:
        """Return a digest of the members, their backends and their weights."""
        return digest([f"{m.fingerprint()} {w:.4f}" for m, w in zip(self.members, self.weights, strict=True)])

    def identity(self) -> str:
        """Return a digest of the members and their weights."""
        return digest([f"{m.identity()} {w:.4f}" for m, w in zip(self.members, self.weights, strict=True)])

    def check_probe(
        self, probe: np.ndarray, owner: str, *, otherwise: str = "build the reference again"
    ) -> None:
        """Check that these members, with any weights, made the owner's probe vectors."""
        if probe.ndim != 2 or probe.shape[1] != self.dimension:
            super().check_probe(probe, owner, otherwise=otherwise)
        for member, part in zip(self.members, self._split(probe), strict=True):
            member.check_probe(part, owner, otherwise=otherwise)

    def standardized(self, vectors: np.ndarray) -> FusedEncoder:
        """Return these members weighted by 1/σ_i, the inverse standard deviation of their cosines.

        :param vectors: Fused vectors of the reference corpus, with any weights.
        """
        if len(vectors) < 3:  # two sentences have a single cosine
            raise InputError("2 sentences are too few to weight encoders by: use a larger reference corpus")
        spreads = [float(random_cosines(part).std()) for part in self._split(vectors)]
        if min(spreads) < _CONSTANT:
            name = self.members[int(np.argmin(spreads))].name
            raise InputError(
                f"encoder {name!r} gives all pairs of the reference corpus the same cosine: leave it out"
            )
        return FusedEncoder(self.members, [1 / spread for spread in spreads])

    def reweight(self, vectors: np.ndarray) -> np.ndarray:
        """Convert vectors that were fused with other weights to these weights."""
        return np.asarray(
            fuse_vectors(list(map(torch.from_numpy, self._split(vectors))), self.weights).numpy()
        )

    def _split(self, vectors: np.ndarray) -> list[np.ndarray]:
        """Return each member's unit vectors."""
        ends = np.cumsum([member.dimension for member in self.members])
        parts = np.split(vectors, ends[:-1], axis=1)
        return [part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts]


def open_encoder(
    source: Encoders,
    *,
    prompt: str = "",
    revision: str | None = None,
    **opening: Unpack[Opening],
) -> Encoder:
    """Open anything that `Encoder` opens, or fuse a list of them; an open `Encoder` is returned unchanged."""
    if isinstance(source, Encoder):
        return source
    if not isinstance(source, (list, tuple)):
        return Encoder(cast("EncoderLike", source), prompt=prompt, revision=revision, **opening)
    if any(isinstance(one, (list, tuple)) for one in source):
        raise InputError("a list of encoders contains a list: pass one flat list")
    if len(source) < 2:
        raise InputError(f"a list of encoders has at least 2, not {len(source)}")
    if prompt or revision:
        raise InputError(
            "`prompt` and `revision` are for one encoder: put each prompt into its encoder's name "
            "(NAME?prompt=TEXT), and each revision too (NAME@REVISION)"
        )
    for one in source:
        folder = rankencoder_folder(one)
        if hasattr(one, "rank_weight") or (folder and folder.parent != Path(str(one))):
            raise InputError(f"{one} is a RankEncoder, which cannot be fused: pass its encoder")
    members = [open_encoder(one, **opening) for one in source]
    known: dict[str, str] = {}
    for member in members:
        if (mark := member.fingerprint()) in known:
            raise InputError(f"{member.name!r} is the same encoder as {known[mark]!r}: pass each one once")
        known[mark] = member.name
    return FusedEncoder(members)
