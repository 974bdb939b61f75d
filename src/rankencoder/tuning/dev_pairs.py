"""Scored pairs to tune on, in all the shapes that they come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError, located
from rankencoder.io.corpus import check_sentences
from rankencoder.io.pairs import ScoredPair, read_scored_pairs, to_score

Pairs = str | Path | Iterable[ScoredPair]
Dev = Pairs | Sequence[Pairs] | Mapping[str, Pairs]


def read_dev(dev: Dev) -> dict[str, list[ScoredPair]]:
    """Return the scored pairs of one or several sets by name: files by their path, others by number.

    :raises InputError: If a file or pair is not usable, or a set is given twice.
    """
    found: dict[str, list[ScoredPair]] = {}
    for name, one in _named(dev):
        if name in found:
            raise InputError(f"{name} is given twice: each set of pairs counts once")
        is_file = isinstance(one, (str, Path))
        found[name] = read_scored_pairs(one) if is_file else [_checked(name, pair) for pair in one]
    return found


def _named(dev: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(dev, Mapping):
        yield from dev.items()
        return
    given = [dev] if isinstance(dev, (str, Path)) else list(dev)
    if given and isinstance(given[0], ScoredPair):
        given = [given]
    for number, one in enumerate(given, start=1):
        yield (str(one) if isinstance(one, (str, Path)) else f"set {number}"), one


def _checked(name: str, pair: Any) -> ScoredPair:
    with located(name):
        try:
            a, b, score = pair
        except (TypeError, ValueError):
            raise InputError(f"expected pairs (sentence, sentence, score), got {str(pair)[:80]!r}") from None
        check_sentences([a, b])
        return ScoredPair(a, b, to_score(score))
