"""Several encoders as one encoder, without training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from rankencoder.encoder_sources import rankencoder_folder
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.fingerprints import digest
from rankencoder.fusion import fuse_vectors, fusion_weights, random_cosines
from rankencoder.progress import Progress

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

    from rankencoder.backends.backend import Backend
    from rankencoder.backends.opening import Opening
    from rankencoder.encoders import EncoderLike

    AnyEncoder = EncoderLike | Encoder
    Encoders = AnyEncoder | Sequence[AnyEncoder]

_CONSTANT = 1e-6  # standard deviation of cosines that differ by rounding alone


class FusedEncoder(Encoder):
    """Several encoders as one: its cosine is the weighted mean of theirs.

    With the weights of `standardized` it orders pairs as the mean of the members' standardized cosines does.

    :param members: Encoders of any dimension, each with its own prompt.
    :param weights: The weight of each member's cosine: positive, and scaled to sum to 1. Without them all are
        equal, until a `RankEncoder` standardizes the cosines on its reference corpus.
    """

    def __init__(self, members: Sequence[Encoder], weights: Sequence[float] | None = None) -> None:
        self.members = list(members)
        self.is_weighted = weights is not None
        self.weights = _scaled([1.0] * len(members) if weights is None else list(weights), len(members))
        self.model = None
        self.function = None
        self.prompt = ""
        self.name = " + ".join(member.name for member in members)

    @cached_property
    def dimension(self) -> int:
        """Dimensions of the vectors: those of all members together."""
        return sum(member.dimension for member in self.members)

    @property
    def device(self) -> torch.device:
        """The device that the vectors are on: the first member's."""
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
        """Encode sentences by every member, and fuse the vectors."""
        bar = Progress(len(self.members), desc="Fusing", unit="encoders", show=False)
        rows = [member(sentences, progress=progress).to(self.device) for member in bar.over(self.members)]
        return fuse_vectors(rows, self.weights)

    def count_tokens(self, sentences: Sequence[str]) -> tuple[list[int], float]:
        """Return the tokens that all members together read of each sentence."""
        read = []
        for counts, longest in (member.count_tokens(sentences) for member in self.members):
            read.append([int(min(count, longest)) for count in counts])
        return [sum(counts) for counts in zip(*read, strict=True)], float("inf")

    @property
    def backend(self) -> Backend:
        """The backend of the member with the least faithful one."""
        return min((member.backend for member in self.members), key=lambda one: one.fidelity)

    def fingerprint(self) -> str:
        """Return a digest of the members, their backends and weights."""
        return digest([f"{m.fingerprint()} {w:.4f}" for m, w in zip(self.members, self.weights, strict=True)])

    def identity(self) -> str:
        """Return a digest of the members and their weights."""
        return digest([f"{m.identity()} {w:.4f}" for m, w in zip(self.members, self.weights, strict=True)])

    def check_probe(
        self, probe: np.ndarray, owner: str, *, otherwise: str = "build the reference again"
    ) -> None:
        """Check that the vectors of an owner came from these members, whatever their weights were."""
        if probe.ndim != 2 or probe.shape[1] != self.dimension:
            super().check_probe(probe, owner, otherwise=otherwise)
        for member, part in zip(self.members, self._split(probe), strict=True):
            member.check_probe(part, owner, otherwise=otherwise)

    def standardized(self, vectors: np.ndarray) -> FusedEncoder:
        """Return these members, weighted by the spread of their cosines: 1/σ_i.

        :param vectors: Fused vectors of the reference corpus, whatever their weights.
        """
        if len(vectors) < 3:  # two have one cosine
            raise InputError("2 sentences are too few to weight encoders by: give a larger reference corpus")
        spreads = [float(random_cosines(part).std()) for part in self._split(vectors)]
        for member, spread in zip(self.members, spreads, strict=True):
            if spread < _CONSTANT:
                raise InputError(
                    f"encoder {member.name!r} gives all pairs of the reference corpus the same cosine: "
                    "leave it out"
                )
        return FusedEncoder(self.members, fusion_weights(spreads).tolist())

    def reweight(self, vectors: np.ndarray) -> np.ndarray:
        """Return vectors that these members were fused to with other weights as they are with these."""
        import torch

        return np.asarray(
            fuse_vectors(list(map(torch.from_numpy, self._split(vectors))), self.weights).numpy()
        )

    def _split(self, vectors: np.ndarray) -> list[np.ndarray]:
        """Return each member's unit vectors."""
        ends = np.cumsum([member.dimension for member in self.members])
        parts = np.split(vectors, ends[:-1], axis=1)
        return [part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts]


def _scaled(weights: list[float], number: int) -> list[float]:
    """Return weights that sum to 1, once they are checked."""
    if len(weights) != number or not all(0 < weight < float("inf") for weight in weights):
        raise InputError(f"`weights` must be {number} positive numbers, one for each encoder, not {weights}")
    total = sum(weights)
    return weights if math.isclose(total, 1) else [weight / total for weight in weights]


def open_encoder(
    source: Encoders,
    *,
    prompt: str = "",
    revision: str | None = None,
    **opening: Unpack[Opening],
) -> Encoder:
    """Open whatever `Encoder` opens, or a list of them as one encoder; an open `Encoder` stays as it is."""
    if isinstance(source, Encoder):
        return source
    if not isinstance(source, (list, tuple)):
        return Encoder(cast("EncoderLike", source), prompt=prompt, revision=revision, **opening)
    if any(isinstance(one, (list, tuple)) for one in source):
        raise InputError("a list of encoders holds a list: give all encoders in one")
    if len(source) < 2:
        raise InputError(f"a list of encoders has at least 2, not {len(source)}")
    if prompt or revision:
        raise InputError(
            "`prompt` and `revision` are for one encoder: write each prompt into its encoder's name "
            "(NAME?prompt=TEXT), and give other revisions as folders"
        )
    for one in source:
        folder = rankencoder_folder(one)
        if hasattr(one, "rank_weight") or (folder and folder.parent != Path(str(one))):
            raise InputError(f"{one} is a RankEncoder, which cannot be fused: give its encoder")
    members = [open_encoder(one, **opening) for one in source]
    known: dict[str, str] = {}
    for member in members:
        if (mark := member.fingerprint()) in known:
            raise InputError(f"{member.name!r} is the same encoder as {known[mark]!r}: give each one once")
        known[mark] = member.name
    return FusedEncoder(members)
