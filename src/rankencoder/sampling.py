"""A seeded sample of distinct sentences from a stream of any length, in one pass."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from rankencoder.corpus import Sentence
from rankencoder.errors import InputError

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
    sample = Sample()
    if not -(2**63) <= seed < 2**63:
        raise InputError(f"seed must fit into 64 bits, {seed} does not")
    key = seed.to_bytes(8, "little", signed=True)
    heap: list[tuple[int, str]] = []  # of negated hashes: the largest hash on top
    kept: set[int] = set()
    distinct: set[int] = set()
    for sentence in sentences:
        sample.seen += 1
        if sentence.text is None:
            sample.overlong += 1
        elif not sentence.text:
            sample.empty += 1
        else:
            value = _hash(sentence.text, key)
            if len(distinct) < _EXACT_DISTINCT:
                distinct.add(value)
            if value not in kept:
                _keep(heap, kept, (-value, sentence.text), size)
    sample.sentences = [text for _, text in sorted(heap, reverse=True)]
    sample.estimated = len(distinct) >= _EXACT_DISTINCT
    usable = sample.seen - sample.empty - sample.overlong
    number = _estimate_distinct(heap) if sample.estimated and len(heap) == size else len(distinct)
    sample.duplicates = max(0, usable - number)
    return sample


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
