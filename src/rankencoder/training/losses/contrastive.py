"""The contrastive loss of stage 1, and its part of stage 2."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.gather import gather, own_rows
from rankencoder.training.losses.formulas import cosine_matrix, info_nce

Features = dict[str, torch.Tensor]

INPUTS = ("input_ids", "attention_mask")  # the encoder's part of a batch


class Head(nn.Sequential):
    """Training head: tanh(W h + b), with W drawn from N(0, 0.02²)."""

    def __init__(self, dimension: int) -> None:
        linear = nn.Linear(dimension, dimension)
        nn.init.normal_(linear.weight, std=0.02)
        nn.init.zeros_(linear.bias)
        super().__init__(linear, nn.Tanh())


class Frozen(nn.Module):
    """A second model of a loss, not trained, and always in evaluation mode."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.frozen = model.eval().requires_grad_(False)  # sentence-transformers would replace a "model"

    def train(self, mode: bool = True) -> Frozen:
        """Stay in evaluation mode."""
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the model's output."""
        return self.frozen(*args, **kwargs)


def mean_cosines(cosines: torch.Tensor) -> Features:
    """Return the mean cosines of positive pairs (the diagonal) and negative ones, to log."""
    cosines, n = cosines.detach(), len(cosines)
    positive = cosines.diagonal().mean()
    negative = (cosines.sum() - positive * n) / max(1, n * (n - 1))
    return {"positive_cosine": positive, "negative_cosine": negative}


@dataclass
class Objective:
    """The parts of a method's loss on the batch of all processes."""

    contrastive: torch.Tensor  # l_cl of Eq. 6
    vectors: torch.Tensor  # the encoder's, [views, N, dimension]
    outputs: torch.Tensor  # the head's
    auxiliary: Features  # further losses to add, already weighted
    logged: Features  # values to log, without gradients


class ContrastiveLoss(nn.Module):
    """Pulls the views of a sentence together, and apart from those of the batch's other sentences."""

    head_class: ClassVar[type[nn.Module]] = Head  # the layer between encoder and loss

    def __init__(self, model: SentenceTransformer, method: Any, backbone: Backbone | None = None) -> None:
        """
        The loss of SimCSE; other methods override what they do differently.

        Args:
            model: SentenceTransformer model.
            method: The `Method`, whose options apply, such as the temperature.
            backbone: The `Backbone`, for losses that need more of it than the model.

        References:
            - SimCSE: Simple Contrastive Learning of Sentence Embeddings: https://arxiv.org/abs/2104.08821

        Requirements:
            1. The features of `ViewCollator`: all views of the batch, stacked.
            2. Dropout in the model, if both views are the same text.

        Inputs:
            +--------------------------------+--------+
            | Texts                          | Labels |
            +================================+========+
            | views of a sentence, as tokens | none   |
            +--------------------------------+--------+

        Relations:
            - ``MultipleNegativesRankingLoss`` with scale 20 has the same formula, without the head.

        Example:
            ::

                backbone = load_backbone("bert-base-uncased")
                loss = SimCSE().loss(SimCSE().encoder(backbone), backbone)

        """  # noqa: D212
        super().__init__()
        self.model = model
        self.method = method
        self.head = self.head_class(int(model.get_embedding_dimension() or 0))
        self.logged: dict[str, torch.Tensor] = {}

    def forward(self, features: list[dict[str, Any]], labels: torch.Tensor | None = None) -> torch.Tensor:
        """Return the loss of a batch; its parts are in ``logged`` then."""
        objective = self.objective(features[0])
        self.logged = {"contrastive": objective.contrastive.detach(), **objective.logged}
        return objective.contrastive + sum(objective.auxiliary.values())

    def objective(self, features: Features) -> Objective:
        """Return the parts of the loss of a batch."""
        inputs = {name: features[name] for name in INPUTS}
        own = self.encode(inputs, sentences=len(features["rows"]))
        adjusted = self.adjust(own, inputs)
        vectors = gather(own)
        outputs = self.head(vectors if adjusted is own else gather(adjusted)).transpose(0, 1)
        contrastive, logged = self.contrast(outputs, features)
        auxiliary = self.auxiliary(inputs, own_rows(outputs, dim=1), logged)
        logged.update({name: loss.detach() for name, loss in auxiliary.items()})
        return Objective(contrastive, vectors.transpose(0, 1), outputs, auxiliary, logged)

    def encode(self, inputs: Features, sentences: int) -> torch.Tensor:
        """Return the encoder's vectors of this process' views, ``[N, views, dimension]``."""
        vectors: torch.Tensor = self.model(dict(inputs))["sentence_embedding"]
        return vectors.reshape(-1, sentences, vectors.shape[-1]).transpose(0, 1)

    def adjust(self, vectors: torch.Tensor, inputs: Features) -> torch.Tensor:
        """Return the head's inputs, given the encoder's vectors."""
        return vectors

    def contrast(self, outputs: torch.Tensor, features: Features) -> tuple[torch.Tensor, Features]:
        """Return l_cl and values to log.

        :param outputs: The head's outputs of all processes, ``[views, N, dimension]``.
        :param features: All features of this process' batch.
        """
        cosines = cosine_matrix(outputs[0], outputs[1])
        return info_nce(cosines, self.method.temperature), mean_cosines(cosines)

    def auxiliary(self, inputs: Features, outputs: torch.Tensor, logged: Features) -> Features:
        """Return further losses of this process' views, already weighted.

        :param outputs: The head's outputs of this process, ``[views, N, dimension]``.
        :param logged: Values to log; methods can add more.
        """
        return {}

    def scoring(self) -> AbstractContextManager[None]:
        """Return a context for scoring dev pairs; by default it does nothing."""
        return nullcontext()

    def state(self) -> Features:
        """Return tensors for checkpoints that change in training without gradients."""
        return {}

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        return {"method": self.method.name, **self.method.options()}

    @property
    def citation(self) -> str:
        """The method's BibTeX entry, for the model card."""
        return str(self.method.citation)
