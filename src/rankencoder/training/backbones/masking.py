"""Mask random tokens, as in BERT's pretraining."""

from __future__ import annotations

import torch
from torch import nn

from rankencoder.training.backbones.backbone import Backbone


class TokenMask(nn.Module):
    """Masks a share of the tokens as BERT's pretraining does, special tokens never."""

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
        """Return ids with some masked (80%), random (10%) or left (10%), and which are to be guessed."""
        draw = torch.rand(ids.shape, device=ids.device)
        selected = (draw < self.share) & ~torch.isin(ids, self.special_ids)
        kind = torch.rand(ids.shape, device=ids.device)
        random = torch.randint(self.vocabulary, ids.shape, device=ids.device)
        masked = ids.masked_fill(selected & (kind < 0.8), self.mask_id)
        return torch.where(selected & (kind >= 0.9), random, masked), selected
