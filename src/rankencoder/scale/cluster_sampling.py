"""`sample_with_ray`: a sample of a corpus, drawn on a cluster."""

from __future__ import annotations

from functools import partial

from rankencoder.io.corpus import MAX_CHARS, read_sentences
from rankencoder.io.files import Place, Slice
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.sampling import Sample, Sampler
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.pieces import find_slices


def sample_with_ray(
    corpus: Place,
    cluster: RayCluster,
    size: int,
    seed: int,
    *,
    column: str | ReadOptions | None = None,
    max_chars: int = MAX_CHARS,
) -> Sample:
    """Draw the sample that one machine would draw, for `Reference.build`.

    Each machine samples what it reads, and the samples are put together here.

    :param corpus: A file, a folder, or an address that fsspec knows.
    :param cluster: In its ``with`` block.
    """
    drawn = Sampler(size, seed)
    draw = partial(_draw, size=size, seed=seed, column=column, max_chars=max_chars)
    for part in cluster.map(find_slices(cluster, corpus), draw):
        drawn.merge(part)
    return drawn.sample()


def _draw(part: Slice, *, size: int, seed: int, column: str | ReadOptions | None, max_chars: int) -> Sampler:
    return Sampler(size, seed).add(read_sentences(part, column=column, max_chars=max_chars))
