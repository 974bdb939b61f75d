"""A reference corpus drawn and encoded on a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.corpus import read_slice
from rankencoder.io.files import Place, Slice
from rankencoder.io.sampling import Sample, Sampler
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.pieces import find_slices
from rankencoder.scale.shipped import Shipped


class RayMachines:
    """Machines of a Ray cluster that draw and encode a reference corpus, for `Reference.build`.

    The same sentences are drawn as on one machine: each machine samples what it reads, and the samples are
    put together here.

    :param cluster: In its ``with`` block.
    :param encoder: One that was loaded from a folder or the hub: the machines load it too.
    """

    def __init__(
        self, cluster: RayCluster, encoder: Encoder, *, revision: str | None = None, device: str | None = None
    ) -> None:
        if encoder.model is None:
            raise InputError("a cluster loads its encoder from a folder or the hub: give one of these")
        self.cluster, self.encoder, self.revision, self.device = cluster, encoder, revision, device

    def sample(self, corpus: Place, size: int, seed: int, *, column: str | None, max_chars: int) -> Sample:
        """Draw a sample of a corpus: a file, a folder, or an address that fsspec knows."""
        drawn = Sampler(size, seed)
        draw = partial(_draw, size, seed, column, max_chars)
        for part in self.cluster.map(find_slices(self.cluster, corpus), draw):
            drawn.merge(part)
        return drawn.sample()

    def encode_parts(self, parts: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, np.ndarray]]:
        """Encode numbered parts of the sample, in any order."""
        given = list(parts)
        if not given:
            return iter(())
        shipped = Shipped(self.cluster.ray, self.encoder.name)
        arguments = (shipped, self.revision, self.device, self.encoder.batch_size)
        return self.cluster.encode(given, lambda part: [part], _PartEncoder, *arguments, device=self.device)


def _draw(size: int, seed: int, column: str | None, max_chars: int, part: Slice) -> Sampler:
    sampler = Sampler(size, seed)
    for sentence in read_slice(part, column=column, max_chars=max_chars):
        sampler.add(sentence)
    return sampler


class _PartEncoder:
    """Encodes parts of the sample, on one of the machines."""

    def __init__(self, model: Shipped, revision: str | None, device: str | None, batch_size: int) -> None:
        with model.unpacked() as source:
            self.encoder = Encoder(source, revision=revision, device=device, batch_size=batch_size)

    def __call__(self, part: tuple[int, list[str]]) -> tuple[int, np.ndarray]:
        return part[0], np.asarray(self.encoder(part[1]).cpu().numpy())
