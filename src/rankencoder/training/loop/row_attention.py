"""Attention within short rows of tokens that follow each other without padding, as a Triton kernel.

One program computes a head of a row. Its scores fit into registers, so that only queries, keys, values and
results are read and written. The backward pass computes the scores again, and draws the same dropout.
"""

# kernels have no types
# mypy: disable-error-code="no-untyped-def,untyped-decorator,import-untyped,import-not-found"
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def _row(starts, heads, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Return the length of this program's row, where its head's values are, and which of them are real."""
    start = tl.load(starts + tl.program_id(0))
    length = tl.load(starts + tl.program_id(0) + 1) - start
    i = tl.arange(0, BLOCK)[:, None]
    at = ((start + i).to(tl.int64) * heads + tl.program_id(1)) * WIDTH + tl.arange(0, WIDTH)[None, :]
    return length, at, i < length


@triton.jit
def _scores(q, k, length, heads, seed, scale, dropout, BLOCK: tl.constexpr):
    """Return the probabilities of a head, and what dropout multiplies them by."""
    place = tl.program_id(0) * heads + tl.program_id(1)
    i = tl.arange(0, BLOCK)
    scores = tl.dot(q, tl.trans(k)) * scale
    scores = tl.where((i < length)[None, :], scores, float("-inf"))
    scores = tl.exp(scores - tl.max(scores, 1)[:, None])
    p = scores / tl.sum(scores, 1)[:, None]
    draw = tl.rand(tl.load(seed), (place * BLOCK + i)[:, None] * BLOCK + i[None, :])
    return p, tl.where(draw >= dropout, 1 / (1 - dropout), 0.0)


@triton.jit
def _forward(
    query, key, value, starts, seed, out, scale, dropout, heads, BLOCK: tl.constexpr, WIDTH: tl.constexpr
):
    length, at, real = _row(starts, heads, BLOCK, WIDTH)
    if length == 0:
        return
    q, k = tl.load(query + at, real, 0.0), tl.load(key + at, real, 0.0)
    v = tl.load(value + at, real, 0.0)
    p, kept = _scores(q, k, length, heads, seed, scale, dropout, BLOCK)
    tl.store(out + at, tl.dot((p * kept).to(v.dtype), v).to(v.dtype), real)


@triton.jit
def _backward(
    query, key, value, starts, seed, gradient, dq, dk, dv, scale, dropout, heads,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    length, at, real = _row(starts, heads, BLOCK, WIDTH)
    if length == 0:
        return
    q, k = tl.load(query + at, real, 0.0), tl.load(key + at, real, 0.0)
    v, g = tl.load(value + at, real, 0.0), tl.load(gradient + at, real, 0.0)
    p, kept = _scores(q, k, length, heads, seed, scale, dropout, BLOCK)
    tl.store(dv + at, tl.dot(tl.trans((p * kept).to(g.dtype)), g).to(v.dtype), real)
    dp = tl.dot(g, tl.trans(v)) * kept
    ds = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(q.dtype)
    tl.store(dq + at, tl.dot(ds, k).to(q.dtype), real)
    tl.store(dk + at, tl.dot(tl.trans(ds), q).to(q.dtype), real)


def _launch(kernel: Any, query: torch.Tensor, starts: torch.Tensor, longest: int, *arguments: Any) -> None:
    """Run a kernel for each head of each row."""
    block, heads = max(16, triton.next_power_of_2(longest)), query.shape[1]
    sizes = {"BLOCK": block, "WIDTH": query.shape[2], "num_warps": max(1, block // 16)}
    kernel[(len(starts) - 1, heads)](query, *arguments, heads, **sizes)


@torch.library.custom_op("rankencoder::row_attention", mutates_args=())
def row_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    starts: torch.Tensor,
    seed: torch.Tensor,
    longest: int,
    scale: float,
    dropout: float,
) -> torch.Tensor:
    """Return the attention of each row to itself.

    :param query: ``[tokens, heads, width]``, contiguous, like keys and values; the width is a power of two.
    :param starts: Where rows begin, and the number of tokens, as int32. Rows may be empty.
    :param seed: Random number from which dropout is drawn, as a tensor.
    :param longest: Maximum tokens of a row.
    """
    out = torch.empty_like(query)
    _launch(_forward, query, starts, longest, key, value, starts, seed, out, scale, dropout)
    return out


@torch.library.custom_op("rankencoder::row_attention_backward", mutates_args=())
def _row_attention_backward(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    starts: torch.Tensor,
    seed: torch.Tensor,
    longest: int,
    scale: float,
    dropout: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    found = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
    given = (key, value, starts, seed, gradient.contiguous(), *found)
    _launch(_backward, query, starts, longest, *given, scale, dropout)
    return found


@row_attention.register_fake
def _(query: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(query)


@_row_attention_backward.register_fake
def _(gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any) -> Any:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _keep_inputs(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.options = inputs[5:]


def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    found = _row_attention_backward(gradient, *ctx.saved_tensors, *ctx.options)
    return (*found, *[None] * 5)


row_attention.register_autograd(_gradients, setup_context=_keep_inputs)
