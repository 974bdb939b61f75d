"""Rank vectors (Eq. 2-3 of the paper): a sentence represented by how it ranks a reference corpus.

There are two algorithms. The *exact* one sorts each row. The *counting* one counts each row into thousands of
roughly equal bins and gives every value the average rank of its bin. The counts bound the error
(`_cubes_limit`, `_bursts_limit`); rows that exceed it are sorted instead. On an NVIDIA GPU one
kernel finds exact ranks without sorting (`ranks_cuda`).
"""

from __future__ import annotations

import math
import warnings
from typing import Literal, TypeVar

import numpy as np
import torch

from rankencoder import ranks_cuda
from rankencoder.errors import InputError

Array = TypeVar("Array", np.ndarray, torch.Tensor)
Method = Literal["auto", "exact", "counting"]

MEMORY_BUDGET = 256 * 2**20
"""Bytes of scratch memory for ranking, besides input and output (a single row may need more)."""

TOLERANCE = 1e-5
"""Largest error of a correlation of counted ranks."""

COARSE = 1e-4
"""Tolerance where later steps lose more digits anyway, such as a projection to few dimensions."""

_COUNTING_MIN = 10_000  # below this, a sort is as fast
_COARSE_MIN = 3000  # at a coarse tolerance; below this, most rows fail and are sorted, too
_FEWEST_BINS = 2**11
_SORTING_SCRATCH = 64  # bytes per value: sorted values, int64 indices, ranks, tie groups
_COUNTING_SCRATCH = 24  # bytes per value or bin: position, int64 index, and as much again for float64
_CACHED_VALUES = 2**19  # on a CPU, chunks of about this many values stay in its caches
_SAMPLE = 256  # values per row that determine the bins
_BELOW_1 = 0.9999998  # keeps the last index below the number of bins
_SIGMAS = 7.0  # see _cubes_limit
_BURSTS = 1.1  # see _bursts_limit
_CHANCE = 5.0  # standard deviations; see _bursts_limit


def rank_vectors(similarities: Array, *, method: Method = "auto", tolerance: float = TOLERANCE) -> Array:
    """Return the normalized rank vector of each row of similarities (Eq. 2-3).

    Eq. 2 replaces a sentence's similarities to ``n`` reference sentences with their ranks; Eq. 3 shifts and
    scales these to zero mean and unit norm, so that the inner product of two rank vectors is Spearman's rank
    correlation. Ties share their average rank. The rank vector of a constant row is zero.

    :param similarities: ``[B, n]`` (or one row, ``[n]``), a numpy array or a torch tensor on any device.
    :param method: "exact" sorts; "counting" counts into bins and sorts only rows whose error may exceed the
        tolerance; "auto" counts where that is faster. Adversarial rows (tens of thousands of evenly spaced
        tiny clusters) reached an error of 3e-5; use "exact" if that matters.
    :param tolerance: Largest error of correlations of counted ranks. 1e-4 needs an eighth of the bins and is
        several times faster at 10,000 similarities. On an NVIDIA GPU float32 rows of up to 131,071 are exact.
    :return: Rank vectors of the same shape, kind and device; float64 for float64 and integers, else float32.
    :raises InputError: If a similarity is NaN or infinite, or an option is unknown.

    >>> import numpy as np
    >>> z = rank_vectors(np.array([[0.1, 0.9, 0.4], [0.2, 0.3, 0.8]]))
    >>> round(float(z[0] @ z[1]), 3)  # Spearman's correlation of the two rows
    0.5
    """
    if method not in ("auto", "exact", "counting"):
        raise InputError(f"unknown method {method!r}: use 'auto', 'exact' or 'counting'")
    if isinstance(similarities, torch.Tensor):
        return _rank_rows(similarities, method, tolerance)
    return _rank_rows(_as_tensor(similarities), method, tolerance).numpy()


def rank_similarity(similarities: Array, others: Array | None = None) -> Array:
    """Return Spearman's correlation of every row with every row of ``others``.

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
    other_ranks = ranks if others is None else rank_vectors(others)
    if type(ranks) is not type(other_ranks):
        raise InputError("similarities must both be numpy arrays or both torch tensors")
    if ranks.shape[-1] != other_ranks.shape[-1]:
        raise InputError(
            f"cannot compare rows of {ranks.shape[-1]} and {other_ranks.shape[-1]} similarities: both need "
            "the same reference corpus"
        )
    if not isinstance(ranks, np.ndarray) and ranks.dtype != other_ranks.dtype:
        ranks, other_ranks = ranks.double(), other_ranks.double()
    return ranks @ other_ranks.T  # type: ignore[no-any-return]


def training_rank_vectors(similarities: torch.Tensor) -> torch.Tensor:
    """Return the rank vectors of a training batch without synchronizing the GPU.

    On an NVIDIA GPU ranks are exact. Elsewhere rows of 10,000 similarities or more are counted, without
    checking the error: smooth rows are correct to 1e-5. Ties in shorter rows are ranked in the order of the
    reference corpus.

    :param similarities: ``[B, n]`` finite similarities to the reference corpus.
    """
    rows = similarities.detach().float().contiguous()
    out = torch.empty_like(rows)
    kernel = ranks_cuda.kernel(rows.device)
    counting = rows.shape[1] >= _COUNTING_MIN
    bins = _number_of_bins(rows.shape[1], TOLERANCE) if counting else 0
    step = _rows_at_a_time(out, bins=bins)
    for part, result in zip(rows.split(step), out.split(step), strict=True):
        if kernel and (plan := kernel.plan(*part.shape)):
            kernel.rank(part, result, plan, wait=False)
            torch.nn.functional.normalize(result, dim=1, out=result)  # ties shorten it
        elif counting:
            _rank_by_counting(part, result, bins)
        else:
            _rank_exactly(part, result, average=False)
    return out


def in_double(tensor: torch.Tensor) -> torch.Tensor:
    """Convert to float64, on the CPU for devices without it (Apple's)."""
    return tensor.cpu().double() if tensor.device.type == "mps" else tensor.double()


def _as_tensor(array: np.ndarray) -> torch.Tensor:
    """Return a tensor that shares an array's memory where possible."""
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        raise InputError(f"similarities must be numbers, not {array.dtype}")
    if array.dtype.kind == "u" or array.dtype.itemsize > 8 or any(stride < 0 for stride in array.strides):
        array = array.astype(np.float64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable")  # read-only use
        return torch.from_numpy(array)


def _rank_rows(rows: torch.Tensor, method: Method, tolerance: float) -> torch.Tensor:
    if rows.ndim == 1:
        return _rank_rows(rows[None], method, tolerance)[0]
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InputError(f"similarities must have the shape [B, n] with n > 0, not {list(rows.shape)}")
    rows = rows.detach()
    wide = rows.dtype == torch.float64 or not rows.is_floating_point()
    out = torch.empty(rows.shape, dtype=torch.float64 if wide else torch.float32, device=rows.device)
    if method != "counting" and not wide and _rank_by_kernel(rows, out):
        return out
    n = rows.shape[1]
    least = _COARSE_MIN if tolerance >= COARSE else _COUNTING_MIN
    count = n > 1 and (method == "counting" or (method == "auto" and n >= least))
    bins = _number_of_bins(n, tolerance) if count else 0
    step = _rows_at_a_time(out, bins=bins)
    for start in range(0, len(rows), step):
        part, result = rows[start : start + step].to(out.dtype), out[start : start + step]
        if count:
            _count_or_sort(part, result, start, tolerance)
        else:
            _check_finite(float(part.sum()), part, start)
            _rank_exactly(part, result)
    return out


def _count_or_sort(rows: torch.Tensor, out: torch.Tensor, start: int, tolerance: float) -> None:
    """Write the rank vectors of all rows by counting, then sort rows whose error is too large."""
    n = rows.shape[1]
    bins = _number_of_bins(n, tolerance)
    cubes, bursts = _rank_by_counting(rows, out, bins)
    limits = _cubes_limit(n, tolerance), _bursts_limit(n, bins)
    # one transfer for all checks: on a GPU each costs as much as several kernels
    *found, total = torch.cat([cubes, bursts, rows.sum()[None]]).tolist()
    _check_finite(total, rows, start)
    if max(found[: len(rows)]) > limits[0] or max(found[len(rows) :]) > limits[1]:
        _sort_some(rows, out, (cubes > limits[0]) | (bursts > limits[1]))


def _rank_by_kernel(rows: torch.Tensor, out: torch.Tensor, start: int = 0) -> bool:
    """Write the rank vectors of all rows by the kernel, if there is one that takes such rows."""
    kernel = ranks_cuda.kernel(rows.device)
    plan = kernel.plan(*rows.shape) if kernel else None
    if not kernel or not plan:
        return False
    number, n = rows.shape
    step = min(max(1, MEMORY_BUDGET // (plan.parts * n * ranks_cuda.SCRATCH)), ranks_cuda.MOST_ROWS)
    if number > step:
        parts = range(0, number, step)
        return all(_rank_by_kernel(rows[i : i + step], out[i : i + step], start + i) for i in parts)
    rows = rows.float().contiguous()
    ties = kernel.rank(rows, out, plan) if number else None
    if ties is not None:
        _mend(rows, out, ties.double().sum(dim=1).cpu().numpy(), start)
    return True


def _mend(rows: torch.Tensor, out: torch.Tensor, ties: np.ndarray, start: int) -> None:
    """Shorten norms by what ties take, and sort rows that are mostly ties or that were refused."""
    if np.isnan(ties).any():
        _check_finite(math.nan, rows, start)
    n = rows.shape[1]
    kept = 1 - ties / (n**3 - n)
    failed = kept < 0.5
    out *= torch.from_numpy(np.where(failed, 1, kept) ** -0.5).to(out)[:, None]
    if failed.any():
        _sort_some(rows, out, torch.from_numpy(failed))


def _sort_some(rows: torch.Tensor, out: torch.Tensor, chosen: torch.Tensor) -> None:
    """Replace the rank vectors of the chosen rows by those of sorting."""
    for numbers in chosen.nonzero()[:, 0].split(_rows_at_a_time(rows, bins=0)):
        some = rows[numbers]
        exact = torch.empty_like(some)
        _rank_exactly(some, exact)
        out[numbers] = exact


def _check_finite(total: float, rows: torch.Tensor, start: int) -> None:
    """Raise for the first non-finite row, if any; an infinite total may also be overflow."""
    if not math.isfinite(total):
        bad = (~torch.isfinite(rows)).any(dim=1).nonzero()
        if len(bad):
            row = start + int(bad[0])
            raise InputError(f"row {row} of the similarities contains NaN or infinity, which have no rank")


def _rows_at_a_time(rows: torch.Tensor, *, bins: int) -> int:
    """Return how many rows fit into MEMORY_BUDGET, at least one."""
    values = MEMORY_BUDGET // (_COUNTING_SCRATCH if bins else _SORTING_SCRATCH)
    if bins and rows.device.type == "cpu":
        values = min(values, _CACHED_VALUES)
    return max(1, values // (rows.shape[1] + bins))


def _rank_exactly(rows: torch.Tensor, out: torch.Tensor, *, average: bool = True) -> None:
    """Write the rank vectors of all rows by sorting. Without ``average``, ties are ranked by position."""
    ordered, order = rows.sort(dim=1, stable=True)
    n = rows.shape[1]
    centered = torch.arange(n, dtype=rows.dtype, device=rows.device).expand_as(rows) - (n - 1) / 2
    cubes = torch.full((len(rows),), n, dtype=torch.float64)
    equal = ordered[:, 1:] == ordered[:, :-1]
    if average and bool(equal.any()):
        group = torch.zeros_like(order)
        group[:, 1:] = (~equal).cumsum(dim=1)
        size = _count(group, n, rows.dtype)
        centered = _centered_average_ranks(size, n).gather(1, group)
        cubes = _sum_of_cubes(in_double(size))
    inverse_norm = _inverse_norm(cubes, n).nan_to_num(0.0, posinf=0.0)  # for a constant row
    out.scatter_(1, order, centered * inverse_norm[:, None].to(rows))


def _rank_by_counting(rows: torch.Tensor, out: torch.Tensor, bins: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Write the rank vectors of all rows by counting; return the statistics that bound the error.

    On a GPU launching a kernel costs as much as running it, so there are few, in place.
    """
    n = rows.shape[1]
    index = _even_bins(rows, bins)
    size = _count(index, bins, rows.dtype)
    cubes = _sum_of_cubes(size)
    table = _centered_average_ranks(size, n).mul_(_inverse_norm(cubes, n)[:, None])
    torch.gather(table, 1, index, out=out)
    return cubes, torch.linalg.vector_norm(size[:, 0::2] - size[:, 1::2], dim=1)


def _even_bins(rows: torch.Tensor, bins: int) -> torch.Tensor:
    """Return a bin index for each value, monotonic, with roughly equal counts per bin.

    The bins follow a logistic curve with the mean and standard deviation of a sample of the row. (Its tails
    handle outliers like an arctangent's, in a sixth of the time on a CPU.)
    """
    stride = max(1, rows.shape[1] // _SAMPLE)
    deviation, mean = torch.std_mean(rows[:, stride // 2 :: stride], dim=1, keepdim=True, correction=0)
    position = (rows - mean).div_(deviation).sigmoid_().mul_(bins * _BELOW_1)
    # NaN comes from a constant sample, whose counts exceed every limit, or from NaN in the input, which is
    # reported at the end
    return position.nan_to_num_(0).long()


def _number_of_bins(n: int, tolerance: float) -> int:
    """Return the number of bins for a tolerance; the error of smooth rows is proportional to 1/bins."""
    bins = 2**15 if n < 2**16 else 2**14
    while bins > _FEWEST_BINS and tolerance >= 2 * TOLERANCE:
        bins, tolerance = bins // 2, tolerance / 2
    return bins


def _count(index: torch.Tensor, bins: int, dtype: torch.dtype) -> torch.Tensor:
    """Count each row's indices: ``[B, n]`` indices below ``bins`` give ``[B, bins]`` counts."""
    zeros = torch.zeros(len(index), bins, dtype=dtype, device=index.device)
    return zeros.scatter_add_(1, index, zeros.new_ones(()).expand_as(index))


def _centered_average_ranks(size: torch.Tensor, n: int) -> torch.Tensor:
    """Return the average rank of each group, in ascending order, minus the mean of all ranks."""
    return size.cumsum(dim=1).sub_(size, alpha=0.5).sub_(n / 2)


def _sum_of_cubes(size: torch.Tensor) -> torch.Tensor:
    """Return Σ c³ over the groups of each row, by which ties reduce the norm of the ranks."""
    return size.pow(3).sum(dim=1)


def _inverse_norm(cubes: torch.Tensor, n: int) -> torch.Tensor:
    """Return the inverse norm of the centered ranks, 1/√((n³ − Σ c³) / 12)."""
    return torch.add(torch.tensor(n**3 / 12, dtype=cubes.dtype), cubes, alpha=-1 / 12).rsqrt_()


def _cubes_limit(n: int, tolerance: float) -> float:
    """Return the largest Σ c³ at which counting stays within the tolerance, for smooth rows.

    Counting loses the share (Σ c³ − n) / (n³ − n) of the ranks' variance, which lies within the bins. It acts
    as noise against another row's ranks: the error of a correlation is about √(lost/n), and seven times that
    for the worst of a million pairs (measured: at most 0.9 of this bound).
    """
    lost = n * (tolerance / _SIGMAS) ** 2
    return n + lost * (float(n) ** 3 - n)


def _bursts_limit(n: int, bins: int) -> float:
    """Return the largest norm of the differences between adjacent bins' counts for a smooth row.

    Independent values with a smooth density give √n. Clusters give more, and within a cluster the lost order
    may correlate with another row's. Chance alone varies the squared norm by a factor of √(4/bins).
    """
    return math.sqrt(max(_BURSTS, 1 + _CHANCE * math.sqrt(4 / bins)) * n)
