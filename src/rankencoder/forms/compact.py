"""The compact form: rank vectors projected onto their principal components."""

from __future__ import annotations

from math import inf
from typing import ClassVar

import torch

from rankencoder.forms.form import Form, Map, held_out
from rankencoder.ranks import in_double, rank_vectors

DIM = 256
_FIT_ROWS, _CHUNK = 2048, 64
_FIT_BYTES = 2**30  # memory for rank vectors: limits the rows above 131,072 references
_MIXED = torch.version.cuda is not None and torch.__version__ >= "2.8"  # whether mm has `out_dtype`
_MANY = 1024  # vectors that are worth splitting all reference vectors
_SPLIT_BYTES = 2**30  # memory for these
_SCALE = 64  # keeps the low parts of unit vectors in float16's normal range


class CompactForm(Form):
    """The first principal components of rank vectors, not centered, to preserve inner products."""

    name = "compact"
    settings: ClassVar = {"dim": (1, inf)}
    projection: torch.Tensor

    def __init__(self, reference: torch.Tensor, dim: int, projection: torch.Tensor) -> None:
        super().__init__(reference)
        self.dim = dim
        self.register_buffer("projection", projection)

    @classmethod
    def fit(cls, reference: torch.Tensor, dim: int = DIM) -> CompactForm:  # type: ignore[override]
        """Find the principal components of the rank vectors of up to a few thousand reference sentences.

        :param dim: Number of components, fewer if the reference corpus is small.
        """
        rows = _rows_to_fit(len(reference), dim)
        ranks = reference.new_empty(len(rows), len(reference))
        for chunk, filled in zip(rows.split(_CHUNK), ranks.split(_CHUNK), strict=True):
            filled.copy_(rank_vectors(reference[chunk] @ reference.T))
        # the eigenvectors of the small Gram matrix give those of the covariance
        values, vectors = torch.linalg.eigh(in_double(ranks @ ranks.T))
        keep = torch.arange(len(values) - 1, -1, -1, device=values.device)[:dim]
        keep = keep[values[keep] > 1e-6 * values[-1].clamp(min=1e-12)]
        projection = ranks.T @ (vectors[:, keep] / values[keep].sqrt()).to(ranks)
        return cls(reference, projection.shape[1], projection)

    @property
    def dimension(self) -> int:
        """The number of components."""
        return self.projection.shape[1]

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return projected rank vectors at unit norm."""
        halves = vectors.is_cuda and _MIXED
        project = self._project_halves() if halves else lambda ranks: ranks @ self.projection
        fits = len(vectors) >= _MANY and 12 * self.reference.numel() <= _SPLIT_BYTES
        similarities = self._split_similarities() if halves and fits else None
        return torch.nn.functional.normalize(
            self.map_ranks(vectors, project, similarities=similarities), dim=1
        )

    def _project_halves(self) -> Map:
        """Return a faster, scaled projection, of float16 in float32. Cosines change by some 1e-4 at most."""
        scale = len(self.projection) ** 0.5  # many ranks are too small for float16
        halves = (self.projection * scale).half()

        def project(ranks: torch.Tensor) -> torch.Tensor:
            scaled = torch.mul(ranks, scale, out=torch.empty_like(ranks, dtype=torch.float16))
            return torch.mm(scaled, halves, out_dtype=torch.float32)

        return project

    def _split_similarities(self) -> Map:
        """Return faster, scaled similarities: a GPU multiplies float16 ten times as fast as float32."""
        reference = torch.cat([split(part, (0, 0, 1)) for part in self.reference.split(_MANY)]).T
        return lambda vectors: torch.mm(split(vectors, (0, 1, 0)), reference, out_dtype=torch.float32)


def split(vectors: torch.Tensor, order: tuple[int, int, int]) -> torch.Tensor:
    """Split unit vectors into high and low parts in float16, and join three of these.

    High · high + low · high + high · low are 4,096 products of the unit vectors, to float32's precision.

    :param order: 0 for the high part and 1 for the low one.
    """
    scaled = _SCALE * vectors
    high = scaled.half()
    parts = high, (scaled - high).half()
    return torch.cat([parts[i] for i in order], dim=1)


def _rows_to_fit(n: int, dim: int) -> torch.Tensor:
    """Return the sentences to fit on: all but the held-out ones, or evenly spaced ones of these."""
    rest = torch.ones(n, dtype=torch.bool)
    if n >= 8:
        rest[held_out(n)] = False
    rows = rest.nonzero()[:, 0]
    number = max(2 * dim, min(_FIT_ROWS, _FIT_BYTES // (4 * n)))
    return rows if len(rows) <= number else rows[(torch.arange(number) * len(rows)) // number]
