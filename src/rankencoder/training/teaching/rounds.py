"""Rounds: E2 becomes the E1 of the next round, as long as that gains something."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rankencoder.io.storage import new_file, read_json, write_json
from rankencoder.training.losses.formulas import rank_targets
from rankencoder.training.teaching.teacher_vectors import load_encoder, reference_folder

if TYPE_CHECKING:
    from rankencoder.training.config import TrainConfig

_SAMPLE = 1000  # sentences
_SCORE = "score.json"


@dataclass(frozen=True)
class Round:
    """How a round ended.

    :param dev: The best score on the dev set, where there is one.
    :param change: How much the rank similarities of E2 differ from those of its teachers, on average.
    """

    number: int
    dev: float | None
    change: float | None

    def is_better_than(self, other: Round) -> bool:
        """Say whether the dev score rose or, without one, the rank similarities changed less."""
        if self.dev is not None and other.dev is not None:
            return self.dev > other.dev
        return (self.change or 0.0) < (other.change or 0.0)


def score_round(number: int, folder: Path, about: dict[str, Any], config: TrainConfig) -> Round:
    """Return how a round ended; the change in similarities is measured once, and only if need be.

    :param folder: Holds the encoder, and the reference corpus as its teachers saw it.
    :param about: What the stage's record says.
    """
    best = about["best"]
    if best is not None or config.rounds == 1:
        return Round(number, best and best["dev"], None)
    if not (folder / _SCORE).exists():
        found = {"change": similarity_change(folder, config)}
        with new_file(folder / _SCORE) as path:
            write_json(path, found)
    return Round(number, None, read_json(folder / _SCORE)["change"])


def similarity_change(folder: Path, config: TrainConfig) -> float:
    """Return the mean absolute difference of rank similarities, of E2 and of its teachers on average.

    They are those of a thousand reference sentences, each two of them.
    """
    from rankencoder.reference import Reference
    from rankencoder.training.teaching.targets import TeacherSimilarity

    count = len(list(folder.glob("reference-*")))
    seen = [Reference.load(reference_folder(folder, i)) for i in range(count)]
    vectors = [torch.from_numpy(reference.vectors) for reference in seen]
    before = TeacherSimilarity(vectors)([table[:_SAMPLE] for table in vectors])
    own = load_encoder(str(folder / "encoder"), config)(seen[0].sentences).cpu()
    after = rank_targets(own[:_SAMPLE], own)
    pairs = ~torch.eye(len(before), dtype=torch.bool)
    return float((before - after).abs()[pairs].mean())
