"""The student of stage 2: the loss that it learns from its teachers by, and the RankEncoder made of it."""

from __future__ import annotations

from pathlib import Path

import torch

from rankencoder.model import RankEncoder
from rankencoder.reference import Reference
from rankencoder.training.config import TrainConfig
from rankencoder.training.losses.contrastive import ContrastiveLoss
from rankencoder.training.teaching.rankencoder_loss import RankEncoderLoss
from rankencoder.training.teaching.targets import Targets
from rankencoder.training.teaching.teachers import open_teacher


def student_loss(config: TrainConfig, base: ContrastiveLoss, targets: Targets) -> RankEncoderLoss:
    """Return the method's loss with that of the teachers' similarities beside it (Eq. 5 and 6)."""
    return RankEncoderLoss(
        base,
        [torch.from_numpy(reference) for reference in targets.references],
        weight=config.rank_loss_weight,
        lower=config.lower,
        upper=config.upper,
        combine=config.combine,
        diagonal=config.diagonal,
        student=config.student,
        target=config.target,
        listwise=config.listwise,
        listwise_weight=config.listwise_weight,
        listwise_temperature=config.listwise_temperature,
    )


def write_rankencoder(
    student: Path, drawn: Reference, folder: Path, config: TrainConfig, *, beside: Path, progress: bool
) -> None:
    """Write E2 with the reference corpus that was drawn for its teachers, encoded by E2 itself (Eq. 7).

    :param beside: Where to keep finished parts.
    """
    encoder = open_teacher(str(student), config)
    own = Reference.build(encoder, drawn.sentences, size=len(drawn), progress=progress, resume_beside=beside)
    RankEncoder(encoder, own, form=config.form, rank_weight=config.rank_weight, progress=False).save(folder)
