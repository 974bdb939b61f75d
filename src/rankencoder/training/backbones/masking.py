"""Mask random tokens, as in BERT's pretraining."""

from __future__ import annotations

import torch
from torch import nn

from rankencoder.training.backbones.backbone import Backbone


class TokenMask(nn.Module):
    """Masks a share of the tokens as in BERT's pretraining, but no special tokens."""

    special_ids: torch.Tensor

    def __init__(self, backbone: Backbone, share: float) -> None:
        super().__init__()
        self.share = share
        self.mask_id = int(backbone.tokenizer.mask_token_id)
        self.vocabulary = int(backbone.config.vocab_size)
        self.register_buffer(
            "special_ids", torch.tensor(backbone.tokenizer.all_special_ids), persistent=False
        )

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids with selected tokens masked (80%), random (10%) or kept (10%), and the selection."""
        draw = torch.rand(ids.shape, device=ids.device)
        selected = (draw < self.share) & ~torch.isin(ids, self.special_ids)
        kind = torch.rand(ids.shape, device=ids.device)
        random = torch.randint(self.vocabulary, ids.shape, device=ids.device)
        masked = ids.masked_fill(selected & (kind < 0.8), self.mask_id)
        return torch.where(selected & (kind >= 0.9), random, masked), selected
