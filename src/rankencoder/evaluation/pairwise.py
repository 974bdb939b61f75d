"""Similarities of many pairs; each distinct sentence is encoded once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from rankencoder.ranks import MEMORY_BUDGET

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder
    from rankencoder.forms import Form


class PairVectors(NamedTuple):
    """Unit vectors of the distinct sentences of pairs, and the rows of each pair, ``[n, 2]``."""

    vectors: torch.Tensor
    pairs: np.ndarray


def encode_pairs(encoder: Encoder, pairs: Iterable[Any], *, progress: bool = False) -> PairVectors:
    """Encode the distinct sentences of pairs: of tuples that begin with two sentences."""
    ids: dict[str, int] = {}
    rows = [[ids.setdefault(text, len(ids)) for text in pair[:2]] for pair in pairs]
    return PairVectors(encoder(list(ids), progress=progress), np.array(rows))


def pair_similarities(form: Form | None, encoded: PairVectors) -> np.ndarray:
    """Return the inner product of each pair's parts in a form, or its cosine, in bounded memory."""
    vectors = encoded.vectors if form is None else encoded.vectors.to(form.reference.device)
    width = vectors.shape[1] if form is None else form.dimension
    found = []
    for some in torch.from_numpy(encoded.pairs).split(max(1, MEMORY_BUDGET // (16 * width))):
        rows, places = some.to(vectors.device).unique(return_inverse=True)
        parts = vectors[rows] if form is None else form(vectors[rows])
        products = (parts[places[:, 0]] * parts[places[:, 1]]).sum(dim=1)
        found.append(products.cpu().double().numpy())
    return np.concatenate(found)
