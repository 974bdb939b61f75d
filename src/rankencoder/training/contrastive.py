"""The loss of stage 1, and the part of stage 2's that does not know of ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from rankencoder.training.gather import gather
from rankencoder.training.losses import cosine_matrix, info_nce

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from rankencoder.training.methods.base import Method

SIDE_TENSORS = ("rows", "teacher")
"""What the collator sends along with the views that is not for the encoder."""


class Head(nn.Sequential):
    """The layer that stands between encoder and loss in training alone: tanh(W h + b), W from N(0, 0.02²)."""

    def __init__(self, dimension: int) -> None:
        linear = nn.Linear(dimension, dimension)
        nn.init.normal_(linear.weight, std=0.02)
        nn.init.zeros_(linear.bias)
        super().__init__(linear, nn.Tanh())


@dataclass
class Objective:
    """What a method makes of one batch, of all processes.

    :param contrastive: l_cl of Eq. 6.
    :param vectors: The encoder's vectors, ``[views, N, dimension]``.
    :param outputs: What the contrastive loss compared: mostly the head's outputs.
    :param auxiliary: Further losses, already weighted, that are added to whatever comes of l_cl.
    :param logged: Figures to log, without gradients.
    """

    contrastive: torch.Tensor
    vectors: torch.Tensor
    outputs: torch.Tensor
    auxiliary: dict[str, torch.Tensor] = field(default_factory=dict)
    logged: dict[str, torch.Tensor] = field(default_factory=dict)


class ContrastiveLoss(nn.Module):
    """Let the views of one sentence be nearer to each other than to those of the batch's other sentences."""

    def __init__(self, model: SentenceTransformer, method: Method) -> None:
        """
        The loss of SimCSE; other methods derive from it and say what they do otherwise.

        Args:
            model: SentenceTransformer model.
            method: The method, whose options (the temperature) it takes.

        References:
            - SimCSE: Simple Contrastive Learning of Sentence Embeddings: https://arxiv.org/abs/2104.08821

        Requirements:
            1. The features of `ViewCollator`: all views of the batch below each other.
            2. Dropout in the model, for methods whose views are the same text.

        Inputs:
            +--------------------------------+--------+
            | Texts                          | Labels |
            +================================+========+
            | views of a sentence, as tokens | none   |
            +--------------------------------+--------+

        Relations:
            - ``MultipleNegativesRankingLoss`` with scale 20 is the same formula, without the head.

        Example:
            ::

                from rankencoder.training.methods import SimCSE

                loss = SimCSE().loss(model)

        """  # noqa: D212
        super().__init__()
        self.model = model
        self.method = method
        self.head = self.make_head(int(model.get_embedding_dimension() or 0))
        self.logged: dict[str, torch.Tensor] = {}

    def make_head(self, dimension: int) -> nn.Module:
        """Return the layer between encoder and loss."""
        return Head(dimension)

    def forward(self, features: list[dict[str, Any]], labels: torch.Tensor | None = None) -> torch.Tensor:
        """Return the loss of a batch; its parts are in ``logged`` then."""
        objective = self.objective(features[0])
        self.logged = {"contrastive": objective.contrastive.detach(), **objective.logged}
        return objective.contrastive + sum(objective.auxiliary.values())

    def objective(self, features: dict[str, Any]) -> Objective:
        """Return what the method makes of a batch."""
        inputs = {name: value for name, value in features.items() if name not in SIDE_TENSORS}
        own = self.encode(inputs, sentences=len(features["rows"]))
        adjusted = self.adjust(own, inputs)
        vectors = gather(own)
        outputs = self.head(vectors if adjusted is own else gather(adjusted)).transpose(0, 1)
        contrastive, logged = self.contrast(outputs)
        auxiliary = self.auxiliary(inputs)
        logged.update({name: loss.detach() for name, loss in auxiliary.items()})
        return Objective(contrastive, vectors.transpose(0, 1), outputs, auxiliary, logged)

    def encode(self, inputs: dict[str, Any], sentences: int) -> torch.Tensor:
        """Return the encoder's vectors of this process' views, ``[N, views, dimension]``."""
        vectors: torch.Tensor = self.model(dict(inputs))["sentence_embedding"]
        return vectors.reshape(-1, sentences, vectors.shape[-1]).transpose(0, 1)

    def adjust(self, vectors: torch.Tensor, inputs: dict[str, Any]) -> torch.Tensor:
        """Return what goes into the head for the encoder's vectors."""
        return vectors

    def contrast(self, outputs: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return l_cl of the head's outputs, ``[views, N, dimension]``, and figures to log."""
        cosines = cosine_matrix(outputs[0], outputs[1])
        n = len(cosines)
        positive = cosines.detach().diagonal().mean()
        negative = (cosines.detach().sum() - positive * n) / max(1, n * (n - 1))
        logged = {"positive_cosine": positive, "negative_cosine": negative}
        return info_nce(cosines, self.method.temperature), logged

    def auxiliary(self, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
        """Return further losses of this process' views, already weighted."""
        return {}

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        return {"method": self.method.name, **self.method.options()}

    @property
    def citation(self) -> str:
        """The method's BibTeX entry, for the model card."""
        return self.method.citation
