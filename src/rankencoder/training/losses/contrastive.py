"""The contrastive loss of stage 1, and its part of stage 2."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import nn

from rankencoder.training.gather import gather, own_rows
from rankencoder.training.losses.formulas import cosine_matrix, info_nce

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Features = dict[str, torch.Tensor]

INPUTS = ("input_ids", "attention_mask")  # what the encoder reads of what the collator sends


class Head(nn.Sequential):
    """The layer that stands between encoder and loss in training alone: tanh(W h + b), W from N(0, 0.02²)."""

    def __init__(self, dimension: int) -> None:
        linear = nn.Linear(dimension, dimension)
        nn.init.normal_(linear.weight, std=0.02)
        nn.init.zeros_(linear.bias)
        super().__init__(linear, nn.Tanh())


class Frozen(nn.Module):
    """A second model that a loss looks at: not trained, and in evaluation mode whoever calls `train`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.frozen = model.eval().requires_grad_(False)  # as "model" sentence-transformers would replace it

    def train(self, mode: bool = True) -> Frozen:
        """Stay as it is."""
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        return self.frozen(*args, **kwargs)


def mean_cosines(cosines: torch.Tensor) -> Features:
    """Return the mean cosine of positive pairs, on the diagonal, and of negative ones, to log."""
    cosines, n = cosines.detach(), len(cosines)
    positive = cosines.diagonal().mean()
    negative = (cosines.sum() - positive * n) / max(1, n * (n - 1))
    return {"positive_cosine": positive, "negative_cosine": negative}


@dataclass
class Objective:
    """What a method makes of one batch, of all processes."""

    contrastive: torch.Tensor  # l_cl of Eq. 6
    vectors: torch.Tensor  # the encoder's, [views, N, dimension]
    outputs: torch.Tensor  # what the contrastive loss compared: mostly the head's outputs
    auxiliary: Features  # further losses, already weighted, that are added to whatever comes of l_cl
    logged: Features  # figures to log, without gradients


class ContrastiveLoss(nn.Module):
    """Let the views of one sentence be nearer to each other than to those of the batch's other sentences."""

    head_class: ClassVar[type[nn.Module]] = Head  # the layer between encoder and loss

    def __init__(self, model: SentenceTransformer, method: Any) -> None:
        """
        The loss of SimCSE; other methods derive from it and say what they do otherwise.

        Args:
            model: SentenceTransformer model.
            method: The `Method`, whose options (the temperature) it takes.

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
        """Return what the method makes of a batch."""
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
        """Return what goes into the head for the encoder's vectors."""
        return vectors

    def contrast(self, outputs: torch.Tensor, features: Features) -> tuple[torch.Tensor, Features]:
        """Return l_cl of the head's outputs, and figures to log.

        :param outputs: Those of all processes, ``[views, N, dimension]``.
        :param features: This process' batch, with what came along with the views.
        """
        cosines = cosine_matrix(outputs[0], outputs[1])
        return info_nce(cosines, self.method.temperature), mean_cosines(cosines)

    def auxiliary(self, inputs: Features, outputs: torch.Tensor, logged: Features) -> Features:
        """Return further losses of this process' views, already weighted.

        :param outputs: The head's outputs of this process, ``[views, N, dimension]``.
        :param logged: Figures to log; more can be added.
        """
        return {}

    def scoring(self) -> AbstractContextManager[None]:
        """Return a context in which dev pairs are scored; by default by the encoder as it is."""
        return nullcontext()

    def state(self) -> Features:
        """Return what changes in training and no gradient trains, to be kept in checkpoints."""
        return {}

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        return {"method": self.method.name, **self.method.options()}

    @property
    def citation(self) -> str:
        """The method's BibTeX entry, for the model card."""
        return str(self.method.citation)
