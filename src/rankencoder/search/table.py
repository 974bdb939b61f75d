"""The rows of an index as a LanceDB table, on disk or object storage."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, ValuesView
from contextlib import contextmanager
from datetime import timedelta
from math import ceil
from typing import Any

import numpy as np

from rankencoder.errors import InputError, MissingExtraError, first_line
from rankencoder.search.filters import quote, to_sql
from rankencoder.search.index_rows import NUMBER, OWN, Row

NAME = "rows"
APPROXIMATE = 100_000  # rows from which to build an approximate index; below, every search is exact
_PARTITION = 8192  # rows per partition of the approximate index
_PROBES = 64  # partitions to search: all of a small table, at least a quarter of a large one
_ITERATIONS, _SAMPLE = 10, 64  # LanceDB's defaults take minutes even for small tables
_COMMITS = 64  # commits before small files are compacted; then twice as many, and so on
_KEPT = timedelta(minutes=10)  # old versions are kept for searches that still read them


class LanceRows:
    """A table of ids, texts, vectors and columns.

    :param uri: A folder, or an address such as ``s3://bucket/folder``.
    :param dimension: The dimension of the vectors, to create a table that does not exist.
    """

    def __init__(self, uri: str, dimension: int | None = None) -> None:
        lancedb, pa = import_lancedb()
        self.uri = uri
        if dimension is None and "://" not in uri and not os.path.isdir(uri):
            raise InputError(f"no table in {uri}: no such folder")  # LanceDB would create it
        with _lance_errors(f"cannot open the table in {uri}"):
            # each read sees the commits of other processes
            database = lancedb.connect(uri, read_consistency_interval=timedelta(0))
            if dimension is not None:
                fields = [pa.field("id", pa.string(), nullable=False), pa.field("text", pa.string())]
                fields.append(pa.field("vector", pa.list_(pa.float32(), dimension)))
                database.create_table(NAME, schema=pa.schema(fields), exist_ok=True)
            self.table = database.open_table(NAME)
        self._commits, self._next = 0, _COMMITS

    def __len__(self) -> int:
        return int(self.table.count_rows())

    @property
    def columns(self) -> list[str]:
        """The names of the user's columns."""
        return [name for name in self.table.schema.names if name not in OWN]

    def _to_sql(self, where: Mapping[str, Any]) -> str:
        _, pa = import_lancedb()
        by_number = NUMBER in self.columns and "id" in where and not _is_text(where["id"])
        hidden = ("vector", "id" if by_number else NUMBER)
        where = {NUMBER if by_number and name == "id" else name: wanted for name, wanted in where.items()}
        return to_sql(where, pa.schema(field for field in self.table.schema if field.name not in hidden))

    def find(self, ids: list[str]) -> dict[str, dict[str, Any]]:
        """Return the rows with these ids, without vectors."""
        with _lance_errors(f"cannot read the table in {self.uri}"):
            condition = f"id IN ({', '.join(map(quote, ids))})"
            query = self.table.search().where(condition).select(["id", "text", *self.columns])
            return {row["id"]: row for row in query.to_list()}

    def write(self, rows: Any, *, replace: bool) -> None:
        """Commit rows with new ids, all or none, after adding missing columns.

        :param rows: An Arrow table with all columns of this one.
        :param replace: Also replace the rows with known ids.
        """
        _, pa = import_lancedb()
        known = self.table.schema.names
        new = [field.with_nullable(True) for field in rows.schema if field.name not in known]
        with _lance_errors(f"cannot write to the table in {self.uri}"):
            if new:
                self.table.add_columns(pa.schema(new))
            merge = self.table.merge_insert("id").when_not_matched_insert_all()
            if replace:
                merge = merge.when_matched_update_all()
            merge.execute(rows.cast(self.table.schema))
            self._commits += 1
            if self._commits == self._next:
                self._next *= 2  # each time all rows are rewritten
                self.table.optimize(cleanup_older_than=_KEPT)

    def delete(self, where: Mapping[str, Any]) -> int:
        """Delete the rows that pass a filter and return their number."""
        with _lance_errors(f"cannot delete from the table in {self.uri}"):
            return int(self.table.delete(self._to_sql(where)).num_deleted_rows)

    def delete_left_passages(self, new: list[Row], known: dict[str, dict[str, Any]]) -> None:
        """Delete the last passages of documents that now have fewer: no new passage replaces them."""
        for row in new:
            left, before = row.columns.get("passages"), known.get(row.id, {}).get("passages")
            if row.columns.get("passage") == 0 and left and before and left < before:
                self.delete({"document": row.columns["document"], "passage": {"gte": left}})

    def search(
        self, vectors: np.ndarray, k: int, where: Mapping[str, Any] | None, *, exact: bool = False
    ) -> list[list[dict[str, Any]]]:
        """Return the rows nearest to each of some unit vectors, nearest first, with their ``_distance``."""
        query = self.table.search(list(vectors), vector_column_name="vector").distance_type("cosine")
        query = query.select(["id", "text", *self.columns, "_distance"]).limit(k)
        if exact:
            query = query.bypass_vector_index()
        else:  # a filter may leave so few rows that more partitions must be searched
            probes = max(_PROBES, ceil(len(self) / _PARTITION / 4))
            query = query.minimum_nprobes(probes).maximum_nprobes(0).refine_factor(10)
        if where:
            query = query.where(self._to_sql(where))
        with _lance_errors(f"cannot search the table in {self.uri}"):
            rows = query.to_list()
        found: list[list[dict[str, Any]]] = [[] for _ in vectors]
        for row in rows:
            found[row.pop("query_index", 0)].append(row)
        return found

    def search_documents(
        self, vectors: np.ndarray, k: int, where: Mapping[str, Any] | None, *, exact: bool = False
    ) -> list[list[dict[str, Any]]]:
        """Return the best passages of the k nearest documents, for each of some unit vectors."""
        total = max(1, len(self))
        most = min(k, total)
        while True:
            found = self.search(vectors, most, where, exact=exact)
            best = [_best_passages(passages)[:k] for passages in found]
            if most == total or min(map(len, best)) == k or min(map(len, found)) < most:
                return best
            most = min(4 * most, total)

    def batches(self, columns: list[str], size: int = 4096) -> Iterator[Any]:
        """Yield some columns of all rows as Arrow batches."""
        with _lance_errors(f"cannot read the table in {self.uri}"):
            yield from self.table.search().select(columns).to_batches(size)

    def sample(self, size: int, seed: int = 0) -> np.ndarray:
        """Return the vectors of some random rows."""
        number = len(self)
        chosen = np.random.default_rng(seed).choice(number, size=min(size, number), replace=False)
        with _lance_errors(f"cannot read the table in {self.uri}"):
            return vectors_of(self.table.take_offsets(np.sort(chosen).tolist()).select(["vector"]).to_arrow())

    def optimize(self) -> None:
        """Compact small files, and create or refresh the indexes of a large table."""
        from lancedb.index import BTree, IvfPq

        with _lance_errors(f"cannot optimize the table in {self.uri}"):
            self.table.optimize(cleanup_older_than=_KEPT)
            if len(self) < APPROXIMATE:
                return
            # separately: a process may have been killed between the two
            made = {column for index in self.table.list_indices() for column in index.columns}
            if "id" not in made:
                self.table.create_index("id", config=BTree())
            if "vector" in made:
                return
            dimension = self.table.schema.field("vector").type.list_size
            config = IvfPq(
                distance_type="cosine",
                num_sub_vectors=next(dimension // size for size in (4, 5, 3, 2, 1) if dimension % size == 0),
                max_iterations=_ITERATIONS,
                sample_rate=_SAMPLE,
                target_partition_size=_PARTITION,
            )
            self.table.create_index("vector", config=config)


def _best_passages(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first row of each document, and all rows without one."""
    best: dict[Any, dict[str, Any]] = {}
    for row in rows:
        best.setdefault((row["document"], row["id"] if row["document"] is None else None), row)
    return list(best.values())


def _is_text(wanted: Any) -> bool:
    """Return whether a filter compares ids with text, not numbers."""
    values = wanted.values() if isinstance(wanted, Mapping) else wanted
    values = values if isinstance(values, (list, tuple, ValuesView)) else [values]
    return all(value is None or isinstance(value, (str, list)) for value in values)


def vectors_of(rows: Any) -> np.ndarray:
    """Return the vectors of an Arrow table or batch as an array."""
    column = rows["vector"]
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(rows), -1)


@contextmanager
def _lance_errors(what: str) -> Iterator[None]:
    """Raise LanceDB's errors as one line."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, RuntimeError, OSError) as error:
        reason = re.sub(r", /(root|home|rustc)/.*", "", first_line(error))
        raise InputError(f"{what}: {reason}") from error


def import_lancedb() -> tuple[Any, Any]:
    """Return the modules lancedb and pyarrow, which are an extra."""
    os.environ.setdefault("LANCEDB_LOG", "error")
    try:
        import lancedb
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("an index needs lancedb", "search") from error
    return lancedb, pa
