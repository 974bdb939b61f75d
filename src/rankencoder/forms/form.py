"""The base class of all forms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch

from rankencoder.ranks import COARSE, MEMORY_BUDGET, rank_vectors

Map = Callable[[torch.Tensor], torch.Tensor]
_HELD_OUT = 1000  # reference sentences not used for fitting, on which fidelity is measured
_RANKED = 256  # sentences at a time on a CPU, for its caches; their multiples fill a GPU's tiles


class Form(torch.nn.Module, ABC):
    """A map from unit sentence vectors to unit vectors whose inner product is the rank similarity."""

    name: ClassVar[str]
    settings: ClassVar[dict[str, tuple[float, float]]] = {}  # settings and their bounds
    reference: torch.Tensor

    def __init__(self, reference: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("reference", reference)

    @classmethod
    def fit(cls, reference: torch.Tensor, **settings: Any) -> Form:
        """Fit the form to unit reference vectors, ``[n, D]``."""
        return cls(reference, **settings)

    @abstractmethod
    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the rank parts of unit sentence vectors, ``[B, D]`` to ``[B, dimension]``."""

    @property
    def label(self) -> str:
        """The name of its similarity, for display."""
        return "ranks"

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Dimensions of the rank part."""

    def _apply(self, fn: Map, recurse: bool = True) -> Form:
        """Follow a model to another device, but not to half precision, which is too coarse for ranks."""
        super()._apply(lambda tensor: tensor.to(fn(tensor.new_empty(0)).device), recurse)  # type: ignore[no-untyped-call]
        return self

    def similarities(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the values to rank: the cosines of unit sentence vectors with the reference sentences."""
        return vectors @ self.reference.T

    def map_ranks(
        self,
        vectors: torch.Tensor,
        function: Map,
        method: Literal["auto", "exact"] = "auto",
        similarities: Map | None = None,
    ) -> torch.Tensor:
        """Return a function of the rank vectors of unit sentence vectors, computed in chunks.

        Unless the form is exact, ranks are coarse, because its projection loses more precision anyway.

        :param similarities: A function that returns the values to rank, at any scale.
        """
        out = vectors.new_empty(len(vectors), self.dimension)
        # similarities and ranks
        step = max(1, MEMORY_BUDGET // (2 * vectors.element_size() * len(self.reference)))
        step -= step % _RANKED if step > _RANKED else 0
        if vectors.device.type == "cpu":
            step = min(step, _RANKED)
        for part, result in zip(vectors.split(step), out.split(step), strict=True):
            ranks = rank_vectors((similarities or self.similarities)(part), method=method, tolerance=COARSE)
            result.copy_(function(ranks))
        return out

    def config(self) -> dict[str, Any]:
        """Return the settings, for JSON."""
        return {key: getattr(self, key) for key in self.settings}

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the fitted tensors, without the reference vectors."""
        return {key: value for key, value in self.state_dict().items() if key != "reference"}


def held_out(n: int) -> torch.Tensor:
    """Return the indices of the held-out sentences: a quarter, at most a thousand, evenly spaced."""
    number = max(2, min(_HELD_OUT, n // 4))
    return (torch.arange(number) * n) // number if n > number else torch.arange(n)
