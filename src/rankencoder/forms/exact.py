"""The exact form: the rank vector itself, one dimension for each reference sentence."""

from __future__ import annotations

import torch

from rankencoder.forms.form import Form


class ExactForm(Form):
    """Rank vectors as in the paper: one number for each reference sentence."""

    name = "exact"

    @property
    def dimension(self) -> int:
        """One number for each reference sentence."""
        return len(self.reference)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the rank vectors (Eq. 2-3) of the cosines with the reference sentences."""
        return self.map_ranks(vectors, lambda ranks: ranks, method="exact")
