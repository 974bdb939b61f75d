"""Students: the RankEncoder made of one that has learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankencoder.encoders import Encoder
from rankencoder.model import RankEncoder
from rankencoder.reference import Reference


def write_rankencoder(
    student: Encoder, drawn: Reference, folder: Path, *, beside: Path, progress: bool, **settings: Any
) -> None:
    """Write a student with the reference corpus that was drawn for its teachers, encoded by itself (Eq. 7).

    :param beside: Where to keep finished parts.
    :param settings: Of the `RankEncoder`: ``form``, ``rank_weight``.
    """
    own = Reference.build(student, drawn.sentences, size=len(drawn), progress=progress, resume_beside=beside)
    RankEncoder(student, own, progress=False, **settings).save(folder)
