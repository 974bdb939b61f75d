"""A seeded sample of distinct sentences from a stream, in one pass."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable
from typing import NamedTuple

from rankencoder.errors import InputError
from rankencoder.io.corpus import Sentence

_EXACT_DISTINCT = 1_000_000


class Sample(NamedTuple):
    """Distinct sentences, and counts of the stream; beyond a million sentences, duplicates are estimated."""

    sentences: list[str]
    counts: dict[str, int | bool]


def sample_sentences(sentences: Iterable[Sentence], size: int, seed: int) -> Sample:
    """Draw a uniform sample of the distinct sentences of a stream.

    Each sentence has a seeded hash, and the sample is the ``size`` sentences with the smallest hashes,
    regardless of their order. Memory holds the sample and at most a million hashes.

    >>> stream = [Sentence(text, "memory", 1) for text in ("a", "b", "a", "", "c")]
    >>> drawn = sample_sentences(stream, size=2, seed=42)
    >>> len(drawn.sentences), drawn.counts
    (2, {'seen': 5, 'empty': 1, 'overlong': 0, 'duplicates': 1, 'estimated': False})
    """
    return Sampler(size, seed).add(sentences).sample()


class Sampler:
    """Draws a sample as `sample_sentences` does; samplers of several streams can be merged."""

    def __init__(self, size: int, seed: int) -> None:
        if not -(2**63) <= seed < 2**63:
            raise InputError(f"seed must fit into 64 bits, but {seed} does not")
        self.size, self.key = size, seed.to_bytes(8, "little", signed=True)
        self.seen = self.empty = self.overlong = 0
        self._heap: list[tuple[int, str]] = []  # negated hashes: the largest hash on top
        self._kept: set[int] = set()
        self._distinct: set[int] = set()

    def add(self, sentences: Iterable[Sentence]) -> Sampler:
        """Add the sentences of a stream."""
        for sentence in sentences:
            self.seen += 1
            if sentence.text is None:
                self.overlong += 1
            elif not sentence.text:
                self.empty += 1
            else:
                digest = hashlib.blake2b(sentence.text.encode(), digest_size=8, key=self.key).digest()
                value = int.from_bytes(digest, "big")
                if len(self._distinct) < _EXACT_DISTINCT:
                    self._distinct.add(value)
                self._keep(value, sentence.text)
        return self

    def merge(self, other: Sampler) -> None:
        """Add the sentences of another sampler of the same size and seed."""
        self.seen += other.seen
        self.empty += other.empty
        self.overlong += other.overlong
        if len(self._distinct) < _EXACT_DISTINCT:
            self._distinct |= other._distinct
        for negated, text in other._heap:
            self._keep(-negated, text)

    def _keep(self, value: int, text: str) -> None:
        item = (-value, text)
        if value in self._kept:
            return
        if len(self._heap) < self.size:
            heapq.heappush(self._heap, item)
            self._kept.add(value)
        elif item > self._heap[0]:
            dropped, _ = heapq.heapreplace(self._heap, item)
            self._kept.discard(-dropped)
            self._kept.add(value)

    def sample(self) -> Sample:
        """Return the sample of all sentences so far."""
        usable = self.seen - self.empty - self.overlong
        # a sample that is not full holds all distinct sentences
        number = max(len(self._distinct), len(self._heap))
        estimated = len(self._distinct) >= _EXACT_DISTINCT and len(self._heap) == self.size
        if estimated:  # from the largest of the k smallest hashes (KMV sketch)
            number = round((self.size - 1) * 2**64 / -self._heap[0][0])
        texts = [text for _, text in sorted(self._heap, reverse=True)]
        counts = {"seen": self.seen, "empty": self.empty, "overlong": self.overlong}
        return Sample(texts, {**counts, "duplicates": max(0, usable - number), "estimated": estimated})
