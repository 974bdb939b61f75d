"""A reference corpus drawn and encoded on a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.corpus import MAX_CHARS, read_slice
from rankencoder.io.files import Place, Slice
from rankencoder.io.sampling import Sampler
from rankencoder.reference import SEED, SIZE, Reference
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.pieces import find_slices
from rankencoder.scale.shipped import Shipped


def reference_with_ray(
    encoder: Encoder,
    corpus: Place,
    cluster: RayCluster,
    *,
    size: int = SIZE,
    seed: int = SEED,
    column: str | None = None,
    max_chars: int = MAX_CHARS,
    progress: bool = False,
    resume_beside: str | Path | None = None,
    revision: str | None = None,
    device: str | None = None,
) -> Reference:
    """Sample a corpus and encode the sample, as `Reference.build` does, but on a Ray cluster.

    The same sentences are drawn. Each machine samples what it reads, and the samples are put together here.

    :param encoder: One that was loaded from a folder or the hub: the machines load it too.
    :param corpus: A file, a folder, or an address that fsspec knows.
    :param cluster: In its ``with`` block.
    :param size: As for `Reference.build`, like all that follows.
    :param revision: The branch, tag or commit of a hub name.
    :param device: Where the machines run the encoder.
    :raises InputError: As `Reference.build`.
    """
    if size < 2:
        raise InputError(f"a reference corpus needs at least 2 sentences, not {size}")
    if encoder.model is None:
        raise InputError("machines of a cluster load the encoder from a folder or the hub: give one of these")
    drawn = Sampler(size, seed)
    draw = _Draw(size, seed, column, max_chars)
    for part in cluster.map(find_slices(cluster, corpus), draw):
        drawn.merge(part)

    def encode_parts(parts: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, np.ndarray]]:
        arguments = (Shipped(cluster.ray, encoder.name), revision, device, encoder.batch_size)
        given = list(parts)
        return cluster.encode(given, _itself, _PartEncoder, *arguments, device=device) if given else iter(())

    return Reference.of_sample(
        encoder,
        drawn.sample(),
        seed=seed,
        max_chars=max_chars,
        progress=progress,
        resume_beside=resume_beside,
        encode_parts=encode_parts,
    )


class _Draw:
    """Samples a slice."""

    def __init__(self, size: int, seed: int, column: str | None, max_chars: int) -> None:
        self.size, self.seed, self.column, self.max_chars = size, seed, column, max_chars

    def __call__(self, part: Slice) -> Sampler:
        sampler = Sampler(self.size, self.seed)
        for sentence in read_slice(part, column=self.column, max_chars=self.max_chars):
            sampler.add(sentence)
        return sampler


def _itself(part: Any) -> list[Any]:
    return [part]


class _PartEncoder:
    """Encodes parts of the sample, on one of the machines."""

    def __init__(self, model: Shipped, revision: str | None, device: str | None, batch_size: int) -> None:
        with model.unpacked() as source:
            self.encoder = Encoder(source, revision=revision, device=device, batch_size=batch_size)

    def __call__(self, part: tuple[int, list[str]]) -> tuple[int, np.ndarray]:
        return part[0], np.asarray(self.encoder(part[1]).cpu().numpy())
