"""The loss of stage 2: E2 learns E1's rank similarities beside the contrastive loss."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn

from rankencoder.training.contrastive import ContrastiveLoss, Objective
from rankencoder.training.gather import gather
from rankencoder.training.losses import (
    Combine,
    Diagonal,
    cosine_matrix,
    rank_loss,
    rank_targets,
    select_pairs,
    total_loss,
)

Student = Literal["encoder", "head"]

CITATION = """@inproceedings{seonwoo-etal-2023-ranking,
    title = "Ranking-Enhanced Unsupervised Sentence Representation Learning",
    author = "Seonwoo, Yeon and Wang, Guoyin and Seo, Changmin and Choudhary, Sajal and Li, Jiwei
        and Li, Xiang and Xu, Puyang and Park, Sunghyun and Oh, Alice",
    booktitle = "Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics",
    year = "2023",
}"""


class RankEncoderLoss(nn.Module):
    """Let cosines of pairs that are neither far apart nor nearly the same follow E1's rank similarities."""

    reference: torch.Tensor

    def __init__(
        self,
        base: ContrastiveLoss,
        reference: torch.Tensor,
        *,
        weight: float = 0.05,
        lower: float = 0.5,
        upper: float = 0.8,
        combine: Combine = "max",
        diagonal: Diagonal = "auto",
        student: Student = "encoder",
    ) -> None:
        """
        The loss of RankEncoder (Eq. 5 and 6): ``max(weight · l_r, l_cl)``.

        Args:
            base: The base method's loss, l_cl, on the model that is trained (E2).
            reference: E1's unit vectors of the reference corpus, ``[n, dimension]``.
            weight: λ_train.
            lower: τ_l, the least rank similarity of a pair that is learnt.
            upper: τ_u, the largest.
            combine: "max" as in the paper, or "sum" as in most of the authors' code.
            diagonal: Whether a sentence is paired with its other view: "auto" by the bounds, "always" or
                "never".
            student: Whose cosines follow the ranks: the encoder's vectors (the paper's formula) or the
                training head's outputs (the authors' code).

        References:
            - Ranking-Enhanced Unsupervised Sentence Representation Learning: https://aclanthology.org/2023.acl-long.879/

        Requirements:
            1. E1's vectors of the batch, sent along by `ViewCollator`; ranks are taken here, on the device.

        Inputs:
            +--------------------------------+-------------------------------+
            | Texts                          | Labels                        |
            +================================+===============================+
            | views of a sentence, as tokens | none; E1's vector (teacher)   |
            +--------------------------------+-------------------------------+

        Relations:
            - ``DistillKLDivLoss`` and ``MarginMSELoss`` learn a teacher's scores of given pairs as well; this
              one learns those of the batch's own pairs, from ranks.

        Example:
            ::

                loss = RankEncoderLoss(SimCSE().loss(model), reference.vectors)

        """  # noqa: D212
        super().__init__()
        self.model = base.model
        self.base = base
        self.register_buffer("reference", reference.float(), persistent=False)
        self.weight, self.lower, self.upper = weight, lower, upper
        self.combine, self.diagonal, self.student = combine, diagonal, student
        self.logged: dict[str, torch.Tensor] = {}

    def forward(self, features: list[dict[str, Any]], labels: torch.Tensor | None = None) -> torch.Tensor:
        """Return the loss of a batch; its parts are in ``logged`` then."""
        targets = rank_targets(gather(features[0]["teacher"]), self.reference)
        objective = self.base.objective(features[0])
        chosen = select_pairs(targets, self.lower, self.upper, self.diagonal)
        rank = rank_loss(self._cosines(objective), targets, chosen)
        self.logged = {
            "contrastive": objective.contrastive.detach(),
            "rank": rank.detach(),
            "weighted_rank": self.weight * rank.detach(),
            "pairs": (chosen.sum() - chosen.diagonal().sum()).float(),
            "diagonal_pairs": chosen.diagonal().sum().float(),
            "target": targets.mean(),
            **objective.logged,
        }
        total = total_loss(objective.contrastive, rank, self.weight, self.combine)
        return total + sum(objective.auxiliary.values())

    def _cosines(self, objective: Objective) -> torch.Tensor:
        """Return E2's cosines of view 1 of each sentence with view 2 of each."""
        of = objective.vectors if self.student == "encoder" else objective.outputs
        return cosine_matrix(of[0], of[1])

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        names = ("weight", "lower", "upper", "combine", "diagonal", "student")
        own = {name: getattr(self, name) for name in names}
        return {**own, "references": len(self.reference), "base": self.base.get_config_dict()}

    @property
    def citation(self) -> str:
        """The BibTeX entries of RankEncoder and of the base method, for the model card."""
        return f"{CITATION}\n\n{self.base.citation}"
