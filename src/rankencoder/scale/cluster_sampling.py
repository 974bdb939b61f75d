"""Draw the sample of a reference corpus on a Ray cluster."""

from __future__ import annotations

from functools import partial

from rankencoder.io.corpus import MAX_CHARS, read_slice
from rankencoder.io.files import Place, Slice
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.sampling import Sample, Sampler
from rankencoder.scale.cluster import RayCluster


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

    :param corpus: A file, a folder, or an address that fsspec knows.
    :param cluster: In its ``with`` block.
    """
    drawn = Sampler(size, seed)
    draw = partial(_draw, size=size, seed=seed, column=column, max_chars=max_chars)
    for part in cluster.map(draw, cluster.slices(corpus)):
        drawn.merge(part)
    return drawn.sample()


def _draw(part: Slice, *, size: int, seed: int, column: str | ReadOptions | None, max_chars: int) -> Sampler:
    return Sampler(size, seed).add(read_slice(part, column=column, max_chars=max_chars))
