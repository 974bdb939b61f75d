"""Students: the RankEncoder made of one that has learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankencoder.encoders import Encoder
from rankencoder.forms import ExactForm
from rankencoder.model import RankEncoder
from rankencoder.reference import Reference


def write_rankencoder(
    student: Encoder,
    drawn: Reference,
    folder: Path,
    *,
    beside: Path,
    progress: bool,
    normalize: bool = True,
    **settings: Any,
) -> None:
    """Write a student with the reference corpus that was drawn for its teachers, encoded by itself (Eq. 7).

    :param beside: Where to keep finished parts.
    :param normalize: Rank references by cosine; otherwise by the inner product with the student's raw
        vectors of them, as the authors' code does (form "exact").
    :param settings: Of the `RankEncoder`: ``form``, ``rank_weight``.
    """
    own = Reference.build(student, drawn.sentences, size=len(drawn), progress=progress, resume_beside=beside)
    model = RankEncoder(student, own, progress=False, **settings)
    if not normalize:
        lengths = student.raw(own.sentences, progress=progress).norm(dim=1)
        model.form = ExactForm(model.form.reference, lengths)
    model.save(folder)
