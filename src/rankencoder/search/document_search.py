"""Documents of an index, each found by its best passage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from rankencoder.io.files import Sentence
from rankencoder.search.index_rows import Row
from rankencoder.search.table import LanceRows


def search_documents(
    rows: LanceRows, vectors: np.ndarray, k: int, where: Mapping[str, Any] | None, *, exact: bool
) -> list[list[dict[str, Any]]]:
    """Return the best passages of the k nearest documents, for each of some unit vectors."""
    total = max(1, len(rows))
    most = min(k, total)
    while True:
        found = rows.search(vectors, most, where, exact=exact)
        best = [_best_passages(passages)[:k] for passages in found]
        if most == total or min(map(len, best)) == k or min(map(len, found)) < most:
            return best
        most = min(4 * most, total)


def _best_passages(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first row of each document, and rows that are of none."""
    best: dict[Any, dict[str, Any]] = {}
    for row in rows:
        best.setdefault((row["document"], row["id"] if row["document"] is None else None), row)
    return list(best.values())


def delete_left_passages(rows: LanceRows, new: list[Row], known: dict[str, dict[str, Any]]) -> None:
    """Delete the last passages of documents that have fewer than before: no new one replaces them."""
    for row in new:
        left, before = row.columns.get("passages"), known.get(row.id, {}).get("passages")
        if row.columns.get("passage") == 0 and left and before and left < before:
            rows.delete({"document": row.columns["document"], "passage": {"gte": left}})


def watch_documents(sentences: Iterable[Sentence], emptied: dict[Any, None]) -> Iterator[Sentence]:
    """Yield passages, and note the documents that have no text: what they had before is to be deleted."""
    for row in sentences:
        document = (row.columns or {}).get("document")
        if row.text == "":
            emptied[document] = None
        else:
            emptied.pop(document, None)
        yield row
