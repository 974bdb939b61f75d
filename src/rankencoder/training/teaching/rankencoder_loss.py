"""The loss of stage 2 (Eq. 5 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from rankencoder.training.gather import gather
from rankencoder.training.losses.contrastive import ContrastiveLoss, Features
from rankencoder.training.losses.formulas import (
    Combine,
    Diagonal,
    cosine_matrix,
    listnet_loss,
    rank_loss,
    select_pairs,
    total_loss,
)
from rankencoder.training.methods.method import cite
from rankencoder.training.teaching.targets import Target, TeacherSimilarity

Student = Literal["encoder", "head"]
Listwise = Literal["none", "listnet"]
TEMPERATURE = 0.05  # ListNet's temperature


class RankEncoderLoss(nn.Module):
    """The loss of RankEncoder (Eq. 5 and 6): ``max(weight · l_r, l_cl)``."""

    def __init__(
        self,
        base: ContrastiveLoss,
        references: Sequence[torch.Tensor],
        *,
        weight: float = 0.05,
        lower: float = 0.5,
        upper: float = 0.8,
        combine: Combine = "max",
        diagonal: Diagonal = "auto",
        student: Student = "encoder",
        target: Target = "ranks",
        listwise: Listwise = "none",
    ) -> None:
        """
        The loss of RankEncoder (Eq. 5 and 6): ``max(weight · l_r, l_cl)``.

        Args:
            base: The base method's loss, l_cl, on the model to train (E2).
            references: Unit vectors of the reference corpus by each E1, ``[n, dimension]``. E2 learns the
                mean of their similarities.
            weight: λ_train.
            lower: τ_l, the minimum rank similarity of a pair.
            upper: τ_u, the maximum.
            combine: "max" as in the paper, or "sum" as in most of the authors' code.
            diagonal: Whether a sentence is paired with its other view: "auto" by the bounds, "always" or
                "never".
            student: Train the cosines of the "encoder" (the paper's formula) or of the training "head" (the
                authors' code).
            target: E1's similarity to learn: "ranks" as in the paper, "cosine", or a power of the covariance
                of the reference vectors.
            listwise: "listnet" adds RankCSE's loss on the order of a sentence's similarities.

        References:
            - Ranking-Enhanced Unsupervised Sentence Representation Learning: https://aclanthology.org/2023.acl-long.879/

        Requirements:
            1. E1's vectors of the batch, which `ViewCollator` adds as "teacher0" (for a second E1
               "teacher1", …). Ranks are computed here, on the device.

        Inputs:
            +--------------------------------+-------------------------------+
            | Texts                          | Labels                        |
            +================================+===============================+
            | views of a sentence, as tokens | none; E1's vector (teacher)   |
            +--------------------------------+-------------------------------+

        Relations:
            - ``DistillKLDivLoss`` and ``MarginMSELoss`` also learn a teacher's scores, but of given pairs;
              this loss takes all pairs of the batch, and ranks.

        Example:
            ::

                backbone = load_backbone("bert-base-uncased")
                base = SimCSE().loss(SimCSE().encoder(backbone), backbone)
                loss = RankEncoderLoss(base, [reference.vectors])

        """  # noqa: D212
        super().__init__()
        self.model = base.model
        self.base = base
        self.similarity = TeacherSimilarity(references, target)
        self.weight, self.lower, self.upper = weight, lower, upper
        self.combine, self.diagonal, self.student = combine, diagonal, student
        self.listwise = listwise
        self.references = len(references[0])
        self.logged: dict[str, torch.Tensor] = {}

    def forward(self, features: list[dict[str, Any]], labels: torch.Tensor | None = None) -> torch.Tensor:
        """Return the loss of a batch; its parts are in ``logged`` then."""
        teachers = range(len(self.similarity.teachers))
        targets = self.similarity([gather(features[0][f"teacher{i}"]) for i in teachers])
        objective = self.base.objective(features[0])
        chosen = select_pairs(targets, self.lower, self.upper, self.diagonal)
        of = objective.vectors if self.student == "encoder" else objective.outputs
        cosines = cosine_matrix(of[0], of[1])  # E2's, of view 1 with view 2
        rank = rank_loss(cosines, targets, chosen)
        added = dict(objective.auxiliary)
        if self.listwise == "listnet":
            added["listnet"] = listnet_loss(cosines, targets, TEMPERATURE)
        self.logged = {
            "contrastive": objective.contrastive.detach(),
            "rank": rank.detach(),
            "weighted_rank": self.weight * rank.detach(),
            "pairs": (chosen.sum() - chosen.diagonal().sum()).float(),
            "diagonal_pairs": chosen.diagonal().sum().float(),
            "target": targets.mean(),
            **objective.logged,
            **{name: loss.detach() for name, loss in added.items()},
        }
        total = total_loss(objective.contrastive, rank, self.weight, self.combine)
        return total + sum(added.values())

    def state(self) -> Features:
        """Return the base method's tensors for checkpoints."""
        return {f"base.{name}": tensor for name, tensor in self.base.state().items()}

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        names = ["weight", "lower", "upper", "combine", "diagonal", "student", "references", "listwise"]
        own = {name: getattr(self, name) for name in names}
        teachers = {"target": self.similarity.target, "teachers": len(self.similarity.teachers)}
        return {**own, **teachers, "base": self.base.get_config_dict()}

    @property
    def citation(self) -> str:
        """The BibTeX entries of RankEncoder and of the base method, for the model card."""
        entries = [cite("seonwoo-etal-2023-ranking"), self.base.citation]
        entries += [cite("liu-etal-2023-rankcse")] if self.listwise == "listnet" else []
        return "\n\n".join(entries)
