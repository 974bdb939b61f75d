"""The idea of ``ranks.cu`` in Triton, to compare with: five launches, and counters in the L2 cache.

Triton knows no atomic operations on shared memory, so that counting, and the way from a bin to a place, go
through global memory.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202
from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def _bins(x, stats, row, bins: tl.constexpr):
    z = (x - tl.load(stats + 2 * row)) * tl.load(stats + 2 * row + 1)
    tail = tl.maximum(1.0 - tl.abs(z), 0.0)
    tail = tail * tail
    tail = tail * tail * (0.5 * bins)
    position = tl.where(z < 0, tail, bins - tail)
    return tl.minimum(position.to(tl.int32), bins - 1)


@triton.jit
def _prepare(
    rows,
    stats,
    starts,
    n,
    stride,
    sampled,
    bins: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, block)
    x = tl.load(rows + row * n + i * stride, mask=i < sampled, other=0.0)
    mean = tl.sum(x) / sampled
    deviation = 1.2533 * tl.sum(tl.where(i < sampled, tl.abs(x - mean), 0.0)) / sampled
    tl.store(stats + 2 * row, mean)
    tl.store(stats + 2 * row + 1, 1 / (5 * deviation))
    for start in range(0, bins + 1, block):
        tl.store(starts + row * (bins + 1) + start + i, 0, mask=start + i <= bins)


@triton.jit
def _count(rows, stats, starts, slots, n, bins: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(rows + row * n + i, mask=i < n, other=0.0)
    bin_ = _bins(x, stats, row, bins)
    slot = tl.atomic_add(starts + row * (bins + 1) + bin_, 1, mask=i < n, sem="relaxed")
    tl.store(slots + row * n + i, slot.to(tl.int16), mask=i < n)


@triton.jit
def _add_up(starts, bins: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, block)
    before = 0
    for start in range(0, bins + 1, block):
        at = starts + row * (bins + 1) + start + i
        counts = tl.load(at, mask=start + i <= bins, other=0)
        tl.store(at, before + tl.cumsum(counts) - counts, mask=start + i <= bins)
        before += tl.sum(counts)


@triton.jit
def _gather(
    rows,
    stats,
    starts,
    slots,
    pairs,
    n,
    bins: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(rows + row * n + i, mask=i < n, other=0.0)
    bin_ = _bins(x, stats, row, bins)
    slot = tl.load(slots + row * n + i, mask=i < n, other=0).to(tl.int32)
    place = tl.load(starts + row * (bins + 1) + bin_) + slot
    pair = (i.to(tl.int64) << 32) | x.to(tl.uint32, bitcast=True).to(tl.int64)
    tl.store(pairs + row * n + place, pair, mask=i < n)


@triton.jit
def _compare(stats, starts, pairs, out, n, scale, bins: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * block + tl.arange(0, block)
    pair = tl.load(pairs + row * n + at, mask=at < n, other=0)
    x = pair.to(tl.uint32).to(tl.float32, bitcast=True)
    bin_ = _bins(x, stats, row, bins)
    first = tl.load(starts + row * (bins + 1) + bin_)
    size = tl.where(at < n, tl.load(starts + row * (bins + 1) + bin_ + 1) - first, 0)
    less = tl.zeros([block], dtype=tl.int32)
    equal = tl.zeros([block], dtype=tl.int32)
    for j in range(0, tl.max(size)):
        other = tl.load(pairs + row * n + first + j, mask=j < size, other=0)
        y = other.to(tl.uint32).to(tl.float32, bitcast=True)
        less += ((y < x) & (j < size)).to(tl.int32)
        equal += ((y == x) & (j < size)).to(tl.int32)
    rank = (2 * (first + less) + equal - n).to(tl.float32) * scale
    tl.store(out + row * n + (pair >> 32), rank, mask=at < n)


def rank_by_triton(rows: torch.Tensor) -> torch.Tensor:
    """Return rank vectors of float32 rows, as if without ties."""
    number, n = rows.shape
    bins = min(32_768, triton.next_power_of_2(n))
    out = torch.empty_like(rows)
    stats = rows.new_empty(number, 2)
    starts = torch.empty(number, bins + 1, dtype=torch.int32, device=rows.device)
    slots = torch.empty(number, n, dtype=torch.int16, device=rows.device)
    pairs = torch.empty(number, n, dtype=torch.int64, device=rows.device)
    grid, options = (triton.cdiv(n, BLOCK), number), {"bins": bins, "block": BLOCK, "enable_fp_fusion": False}
    _prepare[(number,)](rows, stats, starts, n, max(1, n // 1024), min(n, 1024), **options)
    _count[grid](rows, stats, starts, slots, n, **options)
    _add_up[(number,)](starts, **options)
    _gather[grid](rows, stats, starts, slots, pairs, n, **options)
    _compare[grid](stats, starts, pairs, out, n, 0.5 * math.sqrt(12 / (n**3 - n)), **options)
    return out
