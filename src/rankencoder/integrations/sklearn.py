"""`RankTransformer`: rank vectors for scikit-learn pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from rankencoder.blend import blend_vectors, blended_dimension, check_rank_weight
from rankencoder.encoders import unit
from rankencoder.forms import Form, fit_form


class RankTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn vectors into vectors whose cosine blends rank similarity and cosine (Eq. 7).

    :param rank_weight: λ of Eq. 7, from 0 (cosine only) to 1 (ranks only).
    :param form: "exact", "compact" or "linear" (see `RankEncoder`).
    :param dim: Dimensions of the compact form, 256 by default.
    :param power: Power of the linear form.
    :param center: Whether the linear form subtracts the mean first.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> reference = rng.normal(size=(1000, 16))
    >>> transformer = RankTransformer(rank_weight=0.3).fit(reference)
    >>> vectors = transformer.transform(rng.normal(size=(2, 16)))
    >>> vectors.shape  # 256 of the compact form, plus the 16
    (2, 272)
    """

    def __init__(
        self,
        *,
        rank_weight: float = 0.1,
        form: str = "compact",
        dim: int | None = None,
        power: float | None = None,
        center: bool | None = None,
    ) -> None:
        self.rank_weight = rank_weight
        self.form = form
        self.dim = dim
        self.power = power
        self.center = center

    def fit(self, X: Any, y: Any = None) -> RankTransformer:
        """Take the rows of X as the vectors of the reference corpus."""
        check_rank_weight(self.rank_weight)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        self.form_: Form = fit_form(self.form, _unit(X), dim=self.dim, power=self.power, center=self.center)
        return self

    @property
    def _n_features_out(self) -> int:
        return blended_dimension(self.form_.dimension, self.form_.reference.shape[1], self.rank_weight)

    def transform(self, X: Any) -> np.ndarray:
        """Return the blended vector of each row of X; a zero row stays zero."""
        check_is_fitted(self)
        check_rank_weight(self.rank_weight)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        vectors = _unit(X).to(self.form_.reference.dtype)
        blended = blend_vectors(self.form_(vectors), vectors, self.rank_weight)
        blended *= vectors.any(dim=1, keepdim=True)
        return np.asarray(blended.numpy().astype(X.dtype, copy=False))


def _unit(rows: np.ndarray) -> torch.Tensor:
    return unit(torch.from_numpy(np.array(rows, order="C")))
