"""Measure the fidelity of a form: its agreement with exact rank similarities on held-out sentences."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rankencoder.forms.form import Form, held_out
from rankencoder.ranks import MEMORY_BUDGET, in_double, rank_similarity, rank_vectors


@dataclass(frozen=True)
class Fidelity:
    """Agreement of approximate with exact similarities over pairs of held-out reference sentences."""

    spearman: float
    largest_error: float
    pairs: int

    def __str__(self) -> str:
        return f"Spearman {self.spearman:.4f}, largest error {self.largest_error:.3f}, {self.pairs:,} pairs"


def measure(approximate: torch.Tensor, exact: torch.Tensor) -> Fidelity:
    """Compare two ``[m, m]`` matrices of similarities over the pairs above the diagonal."""
    above = torch.triu_indices(len(exact), len(exact), offset=1)
    ours, true = (in_double(matrix)[above[0], above[1]] for matrix in (approximate, exact))
    spearman = rank_similarity(ours[None], true[None]) if len(ours) > 1 else torch.ones(1, 1)
    return Fidelity(float(spearman), float((ours - true).abs().max()), len(ours))


def measure_form(form: Form) -> Fidelity:
    """Compare a form's similarities of its held-out reference sentences with their exact ones."""
    rows = held_out(len(form.reference))
    most = max(2, MEMORY_BUDGET // (8 * len(form.reference)))  # similarities and ranks
    vectors = form.reference[rows[:: -(-len(rows) // most)]]
    parts = form(vectors)
    exact = rank_vectors(vectors @ form.reference.T, method="exact")
    return measure(parts @ parts.T, exact @ exact.T)
