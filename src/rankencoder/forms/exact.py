"""The exact form: the rank vector itself, one dimension per reference sentence."""

from __future__ import annotations

import torch

from rankencoder.forms.form import Form


class ExactForm(Form):
    """Rank vectors as in the paper.

    :param lengths: The norms of the raw reference vectors, to rank by inner products with raw vectors, as the
        authors' code does at inference.
    """

    name = "exact"
    lengths: torch.Tensor | None

    def __init__(self, reference: torch.Tensor, lengths: torch.Tensor | None = None) -> None:
        super().__init__(reference)
        self.register_buffer("lengths", lengths)

    @property
    def dimension(self) -> int:
        """The number of reference sentences."""
        return len(self.reference)

    def similarities(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the values to rank: cosines, or inner products with raw reference vectors."""
        cosines = super().similarities(vectors)
        return cosines if self.lengths is None else cosines * self.lengths

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the rank vectors (Eq. 2-3) of the similarities to the reference sentences."""
        return self.map_ranks(vectors, lambda ranks: ranks, method="exact")
