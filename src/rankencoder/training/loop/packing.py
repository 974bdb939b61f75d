"""Run a model's layers on the tokens of a batch without padding.

Embeddings and pooling still see padded rows, so that methods need not know. Before the first layer the tokens
of all views are packed into one row, and attention is computed for each view by a kernel of our own.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.hooks import RemovableHandle
from transformers import AttentionInterface, AttentionMaskInterface

from rankencoder.errors import TrainingWarning, first_line
from rankencoder.training.backbones.backbone import BERT_LIKE, Backbone

_NAME = "rankencoder-packed"
_MULTIPLE = 64  # tokens: what kernels divide work by
_SPREAD = 3.0  # standard deviations: hardly any batch has more tokens
_WIDTHS = (16, 32, 64, 128)  # of a head
_ERROR = 2e-2  # of attention in half precision; measured: 3e-4 in float16
LONGEST = 128  # tokens of a row, whose scores fit into a GPU's registers


def can_pack(backbone: Backbone, device: torch.device, precision: str) -> bool:
    """Return whether a backbone's layers can run packed: on an Ampere GPU or newer, in half precision."""
    width, rest = divmod(backbone.dimension, getattr(backbone.config, "num_attention_heads", 1))
    return (
        device.type == "cuda"
        and torch.version.cuda is not None
        and precision != "fp32"
        and torch.cuda.get_device_capability(device) >= (8, 0)
        and backbone.config.model_type in BERT_LIKE
        and not backbone.config.output_hidden_states
        and width in _WIDTHS
        and not rest
    )


def is_kernel_right(device: torch.device, dtype: torch.dtype, width: int, longest: int) -> bool:
    """Return whether the kernel compiles here, and attends as PyTorch does; warn if not.

    :param width: Dimensions of a head.
    :param longest: Maximum tokens of a row.
    """
    try:
        from rankencoder.training.loop.row_attention import row_attention

        parts = torch.randn(4, longest + 1, 1, width, generator=torch.Generator().manual_seed(0))
        *drawn, gradient = parts.to(device, dtype).unbind()
        given = [part.requires_grad_() for part in drawn]
        starts = torch.tensor([0, longest, longest + 1], dtype=torch.int32, device=device)
        found = row_attention(*given, starts, starts[:1].long(), longest, width**-0.5, 0.0)
        query, key, value = (part[:-1].double().transpose(0, 1) for part in given)
        true = scaled_dot_product_attention(query, key, value).transpose(0, 1)
        true = torch.cat([true, given[2][-1:].double()])  # the only token of a row
        pairs = zip(
            (found, *torch.autograd.grad(found, given, gradient)),
            (true, *torch.autograd.grad(true, given, gradient.double())),
            strict=True,
        )
        with torch.no_grad():
            error = max(float((a.double() - b).norm() / b.double().norm().clamp(min=1e-3)) for a, b in pairs)
        problem = "" if error < _ERROR else f"attention is off by {error:.1g}"
    except ImportError:
        return False
    except Exception as error:  # no C compiler, no headers of Python
        problem = first_line(error)
    if problem:
        warnings.warn(f"batches are padded, which is slower: {problem}", TrainingWarning, stacklevel=2)
    return not problem


def packed_size(lengths: np.ndarray, batch_size: int, longest: int) -> int:
    """Return the tokens to make room for in a packed batch.

    One size for nearly all batches needs one CUDA graph.

    :param lengths: Tokens of all views of each sentence of a sample, ``[sentences, views]``.
    :param longest: Maximum tokens of a view.

    >>> packed_size(np.array([[4, 4], [16, 16]]), 100, 32)  # 2,000 on average
    2368
    """
    tokens = lengths.sum(axis=1)
    needed = batch_size * float(tokens.mean()) + _SPREAD * float(tokens.std()) * math.sqrt(batch_size)
    size = math.ceil(needed / _MULTIPLE) * _MULTIPLE
    return min(size, batch_size * int(lengths.shape[1]) * longest)


def pack_rows(mask: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Return the places of a batch's tokens, and where each row begins among them.

    Places beyond the tokens point behind the last row, and form further rows of that length at most.

    :param mask: Where padded rows have tokens, ``[rows, longest]``.
    :param size: Number of places; that of the padded rows, if there are more tokens.

    >>> mask = np.array([[True, True, False], [True, False, False]])
    >>> {key: value.tolist() for key, value in pack_rows(mask, 4).items()}
    {'places': [0, 1, 3, 6], 'starts': [0, 2, 3, 4, 4]}
    """
    longest = mask.shape[1]
    tokens = np.flatnonzero(mask)
    size = size if len(tokens) <= size else mask.size
    places = np.full(size, mask.size)
    places[: len(tokens)] = tokens
    ends = np.cumsum(mask.sum(axis=1))
    filler = len(tokens) + longest * np.arange(1, -(-size // longest) + 1)
    starts = np.concatenate([[0], ends, np.minimum(filler, size)]).astype(np.int32)
    return {"places": places, "starts": starts}


class PackedLayers:
    """Runs a model's layers packed on the rows of a batch whose features include those of `pack_rows`.

    A context manager: the hooks of loss and model are removed at the end.
    """

    def __init__(self, loss: nn.Module, transformer: Any) -> None:
        self.loss, self.transformer = loss, transformer
        self.config = transformer.model.config
        self.usual = self.config._attn_implementation
        self.batch: dict[str, torch.Tensor] = {}
        self.handles: list[RemovableHandle] = []

    def __enter__(self) -> None:
        encoder = self.transformer.model.encoder
        self.handles = [
            self.loss.register_forward_pre_hook(self._begin),
            self.loss.register_forward_hook(self._end, always_call=True),
            self.transformer.register_forward_pre_hook(self._switch_on),
            self.transformer.register_forward_hook(self._switch_off, always_call=True),
            encoder.register_forward_pre_hook(self._pack, with_kwargs=True),
            encoder.register_forward_hook(self._unpack),
        ]

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()

    @property
    def _is_on(self) -> bool:
        return bool(self.config._attn_implementation == _NAME)

    def _begin(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        self.batch = arguments[0][0]

    def _end(self, *_: Any) -> None:
        self.batch = {}

    def _switch_on(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        # a loss may also encode rows of its own
        if "places" in self.batch and arguments[0]["attention_mask"] is self.batch["attention_mask"]:
            self.config._attn_implementation = _NAME

    def _switch_off(self, *_: Any) -> None:
        self.config._attn_implementation = self.usual

    def _pack(self, module: nn.Module, arguments: tuple[Any, ...], given: dict[str, Any]) -> Any:
        if not self._is_on:
            return None
        states = arguments[0]
        flat = nn.functional.pad(states.flatten(0, 1), (0, 0, 0, 1))  # for places behind the last row
        more = {
            "attention_mask": None,
            "cu_seq_lens_q": self.batch["starts"],
            "max_length_q": states.shape[1],
        }
        return (flat.index_select(0, self.batch["places"])[None], *arguments[1:]), {**given, **more}

    def _unpack(self, module: nn.Module, arguments: Any, output: Any) -> Any:
        if self._is_on:
            states, mask = output.last_hidden_state[0], self.batch["attention_mask"]
            flat = states.new_zeros(mask.numel() + 1, states.shape[1])
            flat = flat.index_copy(0, self.batch["places"], states)
            output.last_hidden_state = flat[:-1].unflatten(0, mask.shape)
        return output


def packed_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    dropout: float,
    scaling: float,
    cu_seq_lens_q: torch.Tensor,
    max_length_q: int,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Return the attention within each of the packed rows, given ``[1, heads, tokens, width]``."""
    from rankencoder.training.loop.row_attention import row_attention

    heads = [part[0].transpose(0, 1).contiguous() for part in (query, key, value)]
    seed = torch.randint(2**31, (1,), device=query.device)
    return row_attention(*heads, cu_seq_lens_q, seed, max_length_q, scaling, dropout)[None], None


def _no_mask(*_: Any, **__: Any) -> None:
    """Return no mask: rows are told apart by where they begin."""


AttentionInterface.register(_NAME, packed_attention)
AttentionMaskInterface.register(_NAME, _no_mask)
