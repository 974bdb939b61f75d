"""Rank vectors (Eq. 2-3 of the paper): a sentence described by how it ranks a reference corpus.

Two ways to the same ranks. The *exact* path sorts each row. The *counting* path sorts nothing: it counts
each row into thousands of bins, as even as a sample of the row can make them, and gives every value the
average rank of its bin. What that loses is known from the counts alone (`_lost_variance`); a row that would
lose too much is ranked exactly instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from rankencoder.errors import InputError

if TYPE_CHECKING:
    import torch

Array = TypeVar("Array", "np.ndarray", "torch.Tensor")
Ties = Literal["average", "ordinal"]
Method = Literal["auto", "exact", "counting"]

MEMORY_BUDGET = 256 * 2**20
"""Bytes of scratch memory that ranking may use beside its input and output (a single row may need more)."""

TOLERANCE = 1e-5
"""How far a correlation of counted ranks may be from Spearman's."""

_COUNTING_MIN = 10_000  # with fewer references the bins would have to outnumber them: a sort is as fast
_SCRATCH_PER_VALUE = 64  # bytes: sorted values, int64 indices, ranks, tie groups
_CACHED_VALUES = 2**19  # on a CPU, chunks of about this many values stay in its caches
_SAMPLE = 128  # values per row that place the bins
_SIGMAS = 7.0  # see _lost_variance


def rank_vectors(similarities: Array, *, ties: Ties = "average", method: Method = "auto") -> Array:
    """Return the normalised rank vector of each row of similarities (Eq. 2-3).

    Eq. 2 replaces a sentence's similarities to the ``n`` reference sentences by their ranks; Eq. 3 shifts and
    scales these to zero mean and unit norm, so that the inner product of two rank vectors is Spearman's rank
    correlation. A constant row has no order: its rank vector is zero.

    :param similarities: ``[B, n]`` (or one row, ``[n]``), a numpy array or a torch tensor on any device.
    :param ties: "average" gives equal values their average rank, as Spearman's correlation has it; "ordinal"
        ranks them by position, as an argsort does (the authors' code).
    :param method: "exact" sorts; "counting" counts into bins, and falls back to sorting for rows where the
        correlation could be off by more than 1e-5; "auto" counts where that is faster. The 1e-5 is for rows
        whose order inside a bin has nothing to do with the other row's, as with any real data; a row built
        against the bins could be off by up to 5e-4: "exact" is proof against that too.
    :return: Rank vectors of the same shape, kind and device; float64 for float64, otherwise float32.
    :raises InputError: If a similarity is NaN or infinite, or an option is unknown.

    >>> import numpy as np
    >>> z = rank_vectors(np.array([[0.1, 0.9, 0.4], [0.2, 0.3, 0.8]]))
    >>> round(float(z[0] @ z[1]), 3)  # Spearman's correlation of the two rows
    0.5
    """
    import torch

    if method not in ("auto", "exact", "counting"):
        raise InputError(f"unknown method {method!r}: use 'auto', 'exact' or 'counting'")
    if ties not in ("average", "ordinal"):
        raise InputError(f"unknown ties {ties!r}: use 'average' or 'ordinal'")
    if ties == "ordinal" and method == "counting":
        raise InputError("counting gives equal values equal ranks: use ties='average', or method='exact'")
    if isinstance(similarities, torch.Tensor):
        return _rank_rows(similarities, ties, method)
    return _rank_rows(_as_tensor(similarities), ties, method).numpy()


def rank_similarity(similarities: Array, others: Array | None = None) -> Array:
    """Return Spearman's correlation of every row with every row of ``others``: rank vectors' inner products.

    :param similarities: ``[A, n]`` similarities to the reference corpus.
    :param others: ``[B, n]`` similarities to the same reference corpus; the first argument if omitted.
    :return: ``[A, B]`` correlations.
    :raises InputError: If the rows have different lengths, or a similarity is NaN or infinite.

    >>> import numpy as np
    >>> rank_similarity(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).round(3)
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    ranks = rank_vectors(similarities)
    if others is None:
        return ranks @ ranks.T  # type: ignore[no-any-return]
    if others.shape[-1] != similarities.shape[-1]:
        raise InputError(
            f"rows of {similarities.shape[-1]} and of {others.shape[-1]} similarities cannot be compared: "
            "both must be taken to the same reference corpus"
        )
    return ranks @ rank_vectors(others).T  # type: ignore[no-any-return]


def _as_tensor(array: np.ndarray) -> torch.Tensor:
    import torch

    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        raise InputError(f"similarities must be numbers, not {array.dtype}")
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy()
    return torch.from_numpy(array)


def _rank_rows(rows: torch.Tensor, ties: Ties, method: Method) -> torch.Tensor:
    import torch

    if rows.ndim == 1:
        return _rank_rows(rows[None], ties, method)[0]
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InputError(f"similarities must have the shape [B, n] with n > 0, not {list(rows.shape)}")
    rows = rows.detach()
    if rows.dtype != torch.float64:
        rows = rows.float()
    _check_finite(rows)
    n = rows.shape[1]
    count = method == "counting" or (method == "auto" and ties == "average" and n >= _COUNTING_MIN)
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    for chunk in _chunks(rows, bins=_number_of_bins(n) if count else 0):
        if count:
            todo = _rank_by_counting(rows[chunk], out[chunk])
        else:
            todo = torch.ones(chunk.stop - chunk.start, dtype=torch.bool, device=rows.device)
        if todo.any():
            _rank_exactly(rows[chunk], out[chunk], todo, ties)
    return out


def _check_finite(rows: torch.Tensor) -> None:
    import torch

    # a sum is finite unless a value is not (or it overflows, which the slow test then clears)
    if bool(torch.isfinite(rows.sum())):
        return
    bad = (~torch.isfinite(rows)).any(dim=1).nonzero()
    if len(bad):
        raise InputError(
            f"similarities of row {int(bad[0])} are not all finite: NaN and infinity have no rank"
        )


def _chunks(rows: torch.Tensor, *, bins: int) -> list[slice]:
    """Split rows so that the scratch memory of one chunk stays within MEMORY_BUDGET."""
    values = _CACHED_VALUES if bins and rows.device.type == "cpu" else MEMORY_BUDGET // _SCRATCH_PER_VALUE
    step = max(1, values // (rows.shape[1] + bins))
    return [slice(i, min(i + step, len(rows))) for i in range(0, len(rows), step)]


def _rank_exactly(rows: torch.Tensor, out: torch.Tensor, todo: torch.Tensor, ties: Ties) -> None:
    """Write the rank vectors of the rows to do, by sorting."""
    import torch

    every = bool(todo.all())
    ordered, order = (rows if every else rows[todo]).sort(dim=1, stable=True)
    n = rows.shape[1]
    ranks = torch.arange(n, dtype=rows.dtype, device=rows.device).expand_as(ordered)
    equal = ordered[:, 1:] == ordered[:, :-1]
    squared_norm = torch.full((len(ordered), 1), _squared_norm(n), dtype=torch.float64, device=rows.device)
    if ties == "average" and bool(equal.any()):
        group = torch.zeros_like(order)
        group[:, 1:] = (~equal).cumsum(dim=1)
        size = _count(group, n, rows.dtype)
        ranks = _average_ranks(size).gather(1, group)
        squared_norm -= _cubes(size) / 12
    vectors = (ranks - (n - 1) / 2) * _inverse_root(squared_norm).to(rows.dtype)
    result = out if every else torch.empty_like(ordered)
    result.scatter_(1, order, vectors)
    if not every:
        out[todo] = result


def _rank_by_counting(rows: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Write the rank vectors of all rows, by counting; return which of them must be ranked exactly."""
    n = rows.shape[1]
    bins = _number_of_bins(n)
    position = _even_position(rows).mul_(bins * 0.4999999).add_(bins * 0.5)
    index = position.nan_to_num_(0).long()  # NaN: a sample of equal values, whose rows fail the test below
    size = _count(index, bins, rows.dtype)
    cubes = _cubes(size)
    inverse_norm = _inverse_root(_squared_norm(n) - cubes / 12).to(rows.dtype)
    table = (_average_ranks(size) - (n - 1) / 2) * inverse_norm
    out.copy_(table.gather(1, index))
    return (_SIGMAS * (_lost_variance(cubes, n) / n).sqrt() > TOLERANCE)[:, 0]


def _even_position(rows: torch.Tensor) -> torch.Tensor:
    """Map each row into [-1, 1], increasing and roughly evenly, by the quartiles of a sample of it."""
    import torch

    sample = rows[:, :: max(1, rows.shape[1] // _SAMPLE)].sort(dim=1).values
    low, middle, high = (sample[:, sample.shape[1] * k // 4, None] for k in (1, 2, 3))
    scaled = (rows - middle).mul_(2 / (high - low)).clamp_(-1e18, 1e18)  # infinity has no softsign
    return torch.nn.functional.softsign(scaled)


def _number_of_bins(n: int) -> int:
    return 2**15 if n < 2**16 else 2**14


def _count(index: torch.Tensor, bins: int, dtype: torch.dtype) -> torch.Tensor:
    """Count each row's indices: ``[B, n]`` indices below ``bins`` give ``[B, bins]`` counts."""
    import torch

    zeros = torch.zeros(len(index), bins, dtype=dtype, device=index.device)
    return zeros.scatter_add_(1, index, torch.ones((), dtype=dtype, device=index.device).expand_as(index))


def _average_ranks(size: torch.Tensor) -> torch.Tensor:
    """Return the average rank (from 0) of the members of each group, groups in ascending order."""
    return size.cumsum(dim=1) - (size + 1) / 2


def _cubes(size: torch.Tensor) -> torch.Tensor:
    """Return Σ (c³ − c) over the groups of a row: 12 times what ties take from the ranks' squared norm."""
    import torch

    return (size * size).mul_(size).sub_(size).sum(dim=1, keepdim=True, dtype=torch.float64)


def _squared_norm(n: int) -> float:
    """Return the squared norm of the centred ranks of n different values."""
    return n * (n * n - 1) / 12


def _inverse_root(squared_norm: torch.Tensor) -> torch.Tensor:
    return squared_norm.clamp(min=0).rsqrt().nan_to_num(posinf=0.0)


def _lost_variance(cubes: torch.Tensor, n: int) -> torch.Tensor:
    """Return the share of the ranks' variance that lies inside the bins and so is lost by counting.

    What is lost is orthogonal to everything that is constant in each bin. Against another row's ranks it
    acts as noise: the correlation is off by about √(lost/n), and by seven times that for the worst of a
    million pairs (measured: never more than 0.9 of the seven on smooth data).
    """
    return cubes / (12 * max(_squared_norm(n), 1.0))
