"""The loss of distillation."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from rankencoder.training.losses.formulas import cosine_matrix, rank_loss, select_pairs
from rankencoder.training.teaching.targets import TeacherSimilarity

SCALE = 100.0  # squared differences of cosines are small


def vector_loss(vectors: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean of 1 − cosine of each vector and its target.

    >>> vector_loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])).item()
    0.5
    """
    with torch.autocast(vectors.device.type, enabled=False):
        return 1 - functional.cosine_similarity(vectors.float(), targets.float(), dim=1).mean()


class DistillationLoss(nn.Module):
    """100 × the squared error of Eq. 5 over all pairs of different sentences in a batch."""

    def __init__(
        self,
        model: Any,
        similarity: TeacherSimilarity,
        *,
        vector_weight: float = 0.0,
        dropout: bool = False,
    ) -> None:
        """Take a student, and its teachers whose vectors `TextCollator` adds to a batch.

        :param model: The student, a SentenceTransformer.
        :param similarity: The teachers' combined similarity.
        :param vector_weight: Weight of a second loss: 1 − cosine with "origin", the vectors of the encoder
            whose layers the student keeps.
        :param dropout: Train with the student's dropout on.
        """
        super().__init__()
        self.model = model
        self.similarity = similarity
        self.vector_weight, self.dropout = vector_weight, dropout
        self.logged: dict[str, torch.Tensor] = {}

    def forward(self, features: list[dict[str, Any]], labels: torch.Tensor | None = None) -> torch.Tensor:
        """Return the loss of a batch; its parts are in ``logged`` then."""
        inputs = dict(features[0])
        taught = [inputs.pop(f"teacher{i}") for i in range(len(self.similarity.teachers))]
        origin = inputs.pop("origin", None)
        targets = self.similarity(taught)
        self.model.train(self.dropout)  # the trainer turns it on at every step
        vectors = self.model(inputs)["sentence_embedding"]
        everyone = select_pairs(targets, -torch.inf, torch.inf, "never")
        loss = SCALE * rank_loss(cosine_matrix(vectors, vectors), targets, everyone)
        self.logged = {"similarities": loss.detach(), "target": targets.mean()}
        if self.vector_weight:
            distance = vector_loss(vectors, origin)
            self.logged["vectors"] = distance.detach()
            loss = loss + self.vector_weight * distance
        return loss

    def state(self) -> dict[str, torch.Tensor]:
        """Return tensors for checkpoints that change without gradients: none."""
        return {}
