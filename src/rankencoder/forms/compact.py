"""The compact form: rank vectors projected on the few directions in which they really differ."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rankencoder.errors import InputError
from rankencoder.forms.form import Form, held_out
from rankencoder.ranks import in_double, rank_vectors

DIM = 256
_FIT_ROWS = 2048
_FIT_BYTES = 2**30  # of the rank vectors that are held at once
_CHUNK_BYTES = 64 * 2**20  # more than what allocators keep for later
_COLUMNS = 65_536  # of each rank vector of a large reference corpus that the directions are found by


class CompactForm(Form):
    """The first principal components (not centred: inner products are what counts) of rank vectors."""

    name = "compact"
    settings = ("dim",)
    projection: torch.Tensor

    def __init__(self, reference: torch.Tensor, dim: int, projection: torch.Tensor) -> None:
        super().__init__(reference)
        self.dim = dim
        self.register_buffer("projection", projection)

    @classmethod
    def check(cls, dim: int = DIM) -> None:  # type: ignore[override]
        """Refuse fewer than one component."""
        if dim < 1:
            raise InputError(f"dim must be at least 1, not {dim}")

    @classmethod
    def fit(cls, reference: torch.Tensor, dim: int = DIM) -> CompactForm:  # type: ignore[override]
        """Find the principal components of the rank vectors of a few thousand reference sentences.

        The rank vectors of more than a hundred thousand references do not fit into memory: they are made
        twice, a few at a time. A sample of their numbers gives the directions, then all of them the
        components.

        :param dim: How many components to keep; fewer where the reference corpus is too small for them.
        """
        n = len(reference)
        rows = _rows_to_fit(n, dim)
        if 4 * n * len(rows) > _FIT_BYTES:
            projection = _fit_in_chunks(reference, rows, dim)
        else:
            ranks = rank_vectors(reference[rows] @ reference.T)
            projection = ranks.T @ _directions(ranks, dim)
        return cls(reference, projection.shape[1], projection)

    @property
    def dimension(self) -> int:
        """The number of components."""
        return self.projection.shape[1]

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return projected rank vectors, at unit norm."""
        return torch.nn.functional.normalize(
            self.map_ranks(vectors, lambda ranks: ranks @ self.projection), dim=1
        )


def _directions(ranks: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the weights with which rank vectors add up to their principal components, ``[rows, dim]``."""
    # eigenvectors of the small Gram matrix give those of the large one
    values, vectors = torch.linalg.eigh(in_double(ranks @ ranks.T))
    keep = torch.arange(len(values) - 1, -1, -1, device=values.device)[:dim]
    keep = keep[values[keep] > 1e-6 * values[-1].clamp(min=1e-12)]
    weights: torch.Tensor = (vectors[:, keep] / values[keep].sqrt()).to(ranks)
    return weights


def _fit_in_chunks(reference: torch.Tensor, rows: torch.Tensor, dim: int) -> torch.Tensor:
    """Return principal components of rank vectors that are never held all at once, ``[n, dim]``."""
    n = len(reference)
    chunks = rows.split(max(1, _CHUNK_BYTES // (4 * n)))
    weights = _directions(_some_columns(reference, chunks), dim).split([len(part) for part in chunks])
    projection = reference.new_zeros(n, weights[0].shape[1])
    for part, weight in zip(chunks, weights, strict=True):
        projection.addmm_(rank_vectors(reference[part] @ reference.T).T, weight)
    _orthonormalize(projection)
    return projection


def _some_columns(reference: torch.Tensor, chunks: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return a sample of the numbers of rank vectors, spread evenly."""
    n, number = len(reference), min(_COLUMNS, len(reference))
    columns = ((torch.arange(number) * n) // number).to(reference.device)
    sampled = reference.new_empty(sum(map(len, chunks)), number)
    done = 0
    for part in chunks:
        sampled[done : done + len(part)] = rank_vectors(reference[part] @ reference.T)[:, columns]
        done += len(part)
    return sampled


def _orthonormalize(columns: torch.Tensor) -> None:
    """Change columns as little as possible so that all are unit vectors at right angles, in place."""
    values, vectors = torch.linalg.eigh(in_double(columns.T @ columns))
    root = ((vectors / values.clamp(min=1e-12).sqrt()) @ vectors.T).to(columns)
    for part in columns.split(_COLUMNS):
        part.copy_(part @ root)


def _rows_to_fit(n: int, dim: int) -> torch.Tensor:
    """Return the sentences whose rank vectors are looked at: all but the held-out ones, or some of them."""
    rest = torch.ones(n, dtype=torch.bool)
    if n >= 8:
        rest[held_out(n)] = False
    rows = rest.nonzero()[:, 0]
    number = max(2 * dim, _FIT_ROWS)
    return rows if len(rows) <= number else rows[(torch.arange(number) * len(rows)) // number]
