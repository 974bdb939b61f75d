"""Vectors that come with a corpus, instead of being made by the index's model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankencoder.errors import InputError
from rankencoder.io.corpus import Sentence
from rankencoder.search.index_rows import Row


class GivenVectors:
    """One vector for each sentence of a corpus, in its order."""

    def __init__(self, vectors: np.ndarray, dimension: int) -> None:
        self.vectors, self.dimension = np.asarray(vectors), dimension
        self.places: dict[str, int] = {}

    def follow(self, sentences: Iterator[Sentence]) -> Iterator[Sentence]:
        """Remember which vector a sentence has, and forget those of earlier parts."""
        number = -1
        for number, sentence in enumerate(sentences):
            if number >= len(self.vectors):
                raise InputError(f"{sentence.place}: only {len(self.vectors)} vectors were given")
            self.places[sentence.place] = number
            yield sentence
        if number + 1 != len(self.vectors):
            raise InputError(f"{len(self.vectors)} vectors were given for {number + 1} sentences")

    def take(self, rows: list[Row]) -> np.ndarray:
        """Return the vectors of rows."""
        chosen = self.vectors[[self.places[row.place] for row in rows]]
        self.places.clear()
        return check_vectors(np.asarray(chosen, dtype=np.float32), self.dimension)


def check_vectors(vectors: np.ndarray, dimension: int) -> np.ndarray:
    """Return vectors if they can be in an index.

    :raises InputError: If they are not unit vectors of its dimension.
    """
    if vectors.ndim != 2 or vectors.shape[1] != dimension:
        raise InputError(f"expected vectors of {dimension} numbers, got an array of shape {vectors.shape}")
    if not np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3):
        raise InputError("not all vectors are unit vectors: take them from the index's model")
    return vectors.astype(np.float32, copy=False)
