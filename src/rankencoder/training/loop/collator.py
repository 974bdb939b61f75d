"""Collate rows of the training set into a batch of padded views."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from datasets import Dataset

from rankencoder.errors import InputError
from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.loop.packing import LONGEST, is_kernel_right, pack_rows, packed_size
from rankencoder.training.methods.method import Method

_SAMPLE = 2048  # rows whose lengths determine the size of packed batches


@dataclass
class ViewCollator:
    """Makes a batch for one forward pass: all views of its sentences, stacked and padded to one length.

    The trainer recognizes an input by the prefix of its names.

    :param vectors: Vectors of all training sentences by name; a batch gets those of its sentences.
    :param multiple: Round lengths up to a multiple of this: fewer shapes need fewer CUDA graphs.
    :param packed: Tokens of a batch packed without padding (see `packed_size`); 0 to leave it padded.
    :param longest: Tokens of the longest row to pack.
    """

    method: Method
    backbone: Backbone
    max_length: int
    vectors: dict[str, np.ndarray] = field(default_factory=dict)
    multiple: int = 1
    packed: int = 0
    longest: int = 0
    valid_label_columns: tuple[str, ...] = ()

    def pack(self, rows: Dataset, batch_size: int, device: torch.device, dtype: torch.dtype) -> None:
        """Pack the tokens of each batch if the kernel takes rows as long as those of a sample."""
        sample: Any = rows[:: max(1, len(rows) // _SAMPLE)]
        views = self.method.views(sample, self.backbone, self.max_length)
        lengths = np.array([[len(row) for row in view] for view in views]).T
        longest = self._width(lengths)
        width = self.backbone.dimension // self.backbone.config.num_attention_heads
        if longest <= LONGEST and is_kernel_right(device, dtype, width, longest):
            self.packed, self.longest = packed_size(lengths, batch_size, longest), longest

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Return the tensors of a batch."""
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        views = self.method.views(columns, self.backbone, self.max_length)
        ids = [row for view in views for row in view]
        lengths = np.array([len(row) for row in ids])
        longest = self._width(lengths)
        mask = np.arange(longest) < lengths[:, None]
        padded = np.full(mask.shape, self.backbone.tokenizer.pad_token_id or 0, dtype=np.int64)
        padded[mask] = np.concatenate(ids)
        batch = {
            "views_input_ids": torch.from_numpy(padded),
            "views_attention_mask": torch.from_numpy(mask.astype(np.int64)),
            "views_rows": torch.tensor(columns["row"]),
        }
        if self.packed and longest <= self.longest:
            packing = pack_rows(mask, self.packed)
            batch.update({f"views_{name}": torch.from_numpy(value) for name, value in packing.items()})
        for name, vectors in self.vectors.items():
            batch[f"views_{name}"] = torch.from_numpy(np.asarray(vectors[columns["row"]]))
        return batch

    def _width(self, lengths: np.ndarray) -> int:
        """Return the length to pad views to."""
        needed, limit = int(lengths.max()), self.backbone.positions
        if limit is not None and needed > limit:
            raise InputError(f"a view has {needed} tokens, but the backbone reads {limit}: lower max_length")
        longest = -(-needed // self.multiple) * self.multiple
        return min(longest, limit or longest)
