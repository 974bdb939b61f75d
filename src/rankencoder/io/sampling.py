"""A seeded sample of distinct sentences from a stream of any length, in one pass."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from rankencoder.errors import InputError
from rankencoder.io.corpus import Sentence

_EXACT_DISTINCT = 1_000_000


@dataclass
class Sample:
    """Distinct sentences and what was seen on the way to them.

    ``duplicates`` is exact up to a million distinct sentences and, where ``estimated`` says so, an estimate
    beyond.
    """

    sentences: list[str] = field(default_factory=list)
    seen: int = 0
    empty: int = 0
    overlong: int = 0
    duplicates: int = 0
    estimated: bool = False

    def counts(self) -> dict[str, int | bool]:
        """Return the counts without the sentences."""
        return {k: getattr(self, k) for k in ("seen", "empty", "overlong", "duplicates", "estimated")}


def sample_sentences(sentences: Iterable[Sentence], size: int, seed: int) -> Sample:
    """Draw a uniform sample of the distinct sentences of a stream.

    Each sentence has a seeded hash, and the sample is the ``size`` sentences with the smallest ones: the same
    sentences whatever their order, in one pass, in memory for the sample and a million hashes.

    >>> stream = [Sentence(text, "memory", 1) for text in ("a", "b", "a", "", "c")]
    >>> drawn = sample_sentences(stream, size=2, seed=42)
    >>> len(drawn.sentences), drawn.duplicates, drawn.empty
    (2, 1, 1)
    """
    sampler = Sampler(size, seed)
    for sentence in sentences:
        sampler.add(sentence)
    return sampler.sample()


class Sampler:
    """A sample in the making; samplers of several streams can be put together (see `sample_sentences`)."""

    def __init__(self, size: int, seed: int) -> None:
        if not -(2**63) <= seed < 2**63:
            raise InputError(f"seed must fit into 64 bits, {seed} does not")
        self.size, self.key = size, seed.to_bytes(8, "little", signed=True)
        self.seen = self.empty = self.overlong = 0
        self._heap: list[tuple[int, str]] = []  # of negated hashes: the largest hash on top
        self._kept: set[int] = set()
        self._distinct: set[int] = set()

    def add(self, sentence: Sentence) -> None:
        """Take a sentence into account."""
        self.seen += 1
        if sentence.text is None:
            self.overlong += 1
        elif not sentence.text:
            self.empty += 1
        else:
            value = _hash(sentence.text, self.key)
            if len(self._distinct) < _EXACT_DISTINCT:
                self._distinct.add(value)
            if value not in self._kept:
                _keep(self._heap, self._kept, (-value, sentence.text), self.size)

    def merge(self, other: Sampler) -> None:
        """Take all sentences of another stream into account, sampled with the same size and seed."""
        self.seen += other.seen
        self.empty += other.empty
        self.overlong += other.overlong
        for value in other._distinct:
            if len(self._distinct) >= _EXACT_DISTINCT:
                break
            self._distinct.add(value)
        for item in other._heap:
            if -item[0] not in self._kept:
                _keep(self._heap, self._kept, item, self.size)

    def sample(self) -> Sample:
        """Return the sample of what was seen so far."""
        estimated = len(self._distinct) >= _EXACT_DISTINCT and len(self._heap) == self.size
        # a sample that is not full holds all distinct sentences
        most = max(len(self._distinct), len(self._heap))
        number = _estimate_distinct(self._heap) if estimated else most
        usable = self.seen - self.empty - self.overlong
        return Sample(
            [text for _, text in sorted(self._heap, reverse=True)],
            self.seen,
            self.empty,
            self.overlong,
            max(0, usable - number),
            estimated,
        )


def _hash(text: str, key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, key=key).digest(), "big")


def _keep(heap: list[tuple[int, str]], kept: set[int], item: tuple[int, str], size: int) -> None:
    if len(heap) < size:
        heapq.heappush(heap, item)
        kept.add(-item[0])
    elif item > heap[0]:
        dropped = heapq.heapreplace(heap, item)
        kept.discard(-dropped[0])
        kept.add(-item[0])


def _estimate_distinct(heap: list[tuple[int, str]]) -> int:
    """Estimate the number of distinct sentences from the largest of the k smallest hashes (KMV sketch)."""
    return round((len(heap) - 1) * 2**64 / -heap[0][0])
