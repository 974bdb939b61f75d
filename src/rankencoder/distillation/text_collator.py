"""Collate sentences for a SentenceTransformer, with the teachers' vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


@dataclass
class TextCollator:
    """Makes a batch of sentences by the student's own preprocessing, its default prompt included.

    The prefix of the names is what the trainer takes for one input.

    :param max_length: Tokens of a sentence that are read, if the student would read more.
    :param vectors: Vectors of all training sentences by name, mapped into memory; the batch's go along.
    """

    model: SentenceTransformer
    max_length: int
    vectors: dict[str, np.ndarray]
    valid_label_columns: tuple[str, ...] = ()

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Return the tensors of a batch."""
        prompt = self.model.prompts.get(self.model.default_prompt_name or "")
        longest = min(self.max_length, self.model.max_seq_length or self.max_length)
        settings: Any = {"text": {"truncation": True, "max_length": int(longest)}}
        texts: Any = [row["text"] for row in rows]
        found = self.model.preprocess(texts, prompt=prompt or None, processing_kwargs=settings)
        batch = {f"text_{name}": value for name, value in found.items() if isinstance(value, torch.Tensor)}
        numbers = np.array([row["row"] for row in rows])
        for name, table in self.vectors.items():
            batch[f"text_{name}"] = torch.from_numpy(np.asarray(table[numbers]))
        return batch
