"""`RankIndex`: semantic search over sentences on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.backends.opening import OPENING, Opening
from rankencoder.encoder_sources import check_model, join_prompt, rankencoder_folder, split_prompt
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.corpus import LONGEST, Sentence, check_sentences, estimate_sentences, read_sentences
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.storage import absolute, import_pyarrow
from rankencoder.labels.fitted_curve import curve_folder
from rankencoder.labels.threshold_curve import STORED, ThresholdCurve, stored_curve
from rankencoder.model import RankEncoder, open_model
from rankencoder.progress import FASTER, Progress
from rankencoder.search.calibration import REFERENCE, SENTENCES, Calibration
from rankencoder.search.index_folder import About, IndexFolder
from rankencoder.search.index_rows import (
    NUMBER,
    Hit,
    Row,
    RowWatch,
    changed,
    check_vectors,
    columns_of,
    distinct,
    make_rows,
    watch_documents,
)
from rankencoder.search.table import LanceRows, import_lancedb
from rankencoder.text_fit import TextFit, with_tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

_PART = 2048  # sentences to encode and commit together
_GIVEN_PART = 32_768  # the same with given vectors, where an interruption costs nothing
COUNTS = ("added", "replaced", "unchanged", "repeated", "empty", "overlong")


class RankIndex:
    """An index of sentences in a folder: a LanceDB table of unit vectors with texts, ids and columns.

    Create or extend one with `build`, or open it with `load`. `add` commits part by part to disk, so
    there is nothing else to save.

    :param model: Its model, if not the stored one; required for a model that was only in memory.
    :param opening: How to run the stored model, as for `rankencoder.model.open_model`.

    >>> from tempfile import TemporaryDirectory
    >>> def letters(texts):  # any function from strings to vectors is an encoder
    ...     return [[1 + text.count(c) for c in "aeiou"] for text in texts]
    >>> with TemporaryDirectory() as folder:
    ...     index = RankIndex.build(letters, ["banana", "avocado", "unit"], f"{folder}/index")
    ...     [hit.text for hit in index.search("a papaya", k=1)]
    ['banana']
    """

    def __init__(self, folder: str | Path, model: Any = None, **opening: Unpack[Opening]) -> None:
        self.folder = IndexFolder(folder)
        self.about, self._probe = self.folder.read()
        self.rows = LanceRows(self.about.table or str(self.folder.path))
        self._source, self._opening = model, opening
        self._model: RankEncoder | Encoder | None = None

    @classmethod
    def load(cls, folder: str | Path, model: Any = None, **options: Any) -> RankIndex:
        """Open an index (see the class)."""
        return cls(folder, model, **options)

    @classmethod
    def create(
        cls,
        model: Any,
        folder: str | Path,
        *,
        table: str | None = None,
        **opening: Unpack[Opening],
    ) -> RankIndex:
        """Create an empty index, or open an existing one.

        :param model: A model for `rankencoder.model.open_model`; the scores of a plain encoder are cosines.
        :param table: Where to keep the table, if not in the folder, e.g. ``s3://bucket/folder``.
        :param opening: How to run a model that is loaded by name, as for `open_model`.
        :raises InputError: If the existing index was made with another model.
        """
        check_model(model)
        import_lancedb()
        if table is not None and "://" not in table:
            table = str(Path(table).resolve())
        place = IndexFolder(folder)
        place.claim()
        opened = open_model(model, **opening)
        with place.locked():
            if not place.exists():
                path = None  # the model is only in memory
                if isinstance(model, (str, Path)):
                    name, prompt = split_prompt(str(model))
                    path = join_prompt(absolute(name), prompt)
                probe = _as_encoder(opened).probe()
                about = About(path, path or opened.name, probe.shape[1], table, opened.identity())
                if len(LanceRows(table or str(place.path), about.dimension)):
                    raise InputError(f"{table} holds sentences of another index: choose another place")
                place.write(about, probe)
        index = cls(folder, opened)
        if table is not None and table != index.about.table:
            raise InputError(f"the table of {place.path} is in {index.about.table or 'it'}, not in {table}")
        index.model  # noqa: B018  (raises an error if the index was made with another)
        return index

    @classmethod
    def build(
        cls,
        model: Any,
        corpus: Any,
        folder: str | Path,
        *,
        table: str | None = None,
        **settings: Any,
    ) -> RankIndex:
        """Index a corpus, or add it to an existing index: `create`, `add` and `optimize`.

        :param settings: As for `create` and `add`.
        """
        opening: Any = {name: settings.pop(name) for name in OPENING & settings.keys()}
        with IndexFolder(folder).removed_if_empty():
            index = cls.create(model, folder, table=table, **opening)
            index.add(corpus, **settings)
        index.optimize()
        return index

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"RankIndex({str(self.folder.path)!r}, {len(self):,} sentences, model={self.about.name!r})"

    @property
    def columns(self) -> list[str]:
        """The names of the columns besides id and text."""
        return [name for name in self.rows.columns if name != NUMBER]

    @property
    def has_passages(self) -> bool:
        """Whether its sentences are passages of documents."""
        return {"document", "passage"} <= {*self.columns}

    @property
    def has_model(self) -> bool:
        """Whether the model was given or can be loaded."""
        return self._source is not None or self.about.model is not None

    @property
    def model(self) -> RankEncoder | Encoder:
        """The model, loaded on first use; it must be the one that made the index."""
        if self._model is None:
            owner = f"the index {self.folder.path} was made with {self.about.name!r}"
            source: Any = self.about.model if self._source is None else self._source
            if source is None:
                raise InputError(f"{owner}, which is not on disk: use RankIndex.load(folder, model=...)")
            opened = open_model(source, **self._opening)
            _as_encoder(opened).check_probe(self._probe, owner, otherwise="make another index")
            self._model = opened
        return self._model

    def identity(self) -> str:
        """Return the fingerprint of its model, which is loaded only if it may have changed."""
        return self.folder.identity_of(self.about, self._source) or self.model.identity()

    def add(
        self,
        corpus: Any,
        *,
        column: str | ReadOptions | None = None,
        id_column: str | None = None,
        vectors: np.ndarray | None = None,
        progress: bool = False,
    ) -> dict[str, int]:
        """Add new sentences; each part is on disk before the next is encoded.

        By default a sentence's id is the hash of its text: each text is stored once, with its first columns.
        If the rows have an "id" column, or ``id_column`` names one, a row replaces one of the same id. Other
        processes may write at the same time.

        :param corpus: A corpus for `read_sentences`; an iterable may also hold mappings of columns.
        :param column: The text column, or all `ReadOptions`. The passages of a known document replace its
            earlier ones.
        :param vectors: Unit vectors from the index's model, if already computed: one for each sentence of the
            corpus, even empty ones.
        :return: How many sentences were ``added``, ``replaced`` and so on (`COUNTS`).
        :raises InputError: If the corpus is invalid. What was added before is kept.
        """
        counts, emptied = dict.fromkeys(COUNTS, 0), dict[Any, None]()
        options = ReadOptions.of(column, id_column)
        if options.split is not None:
            options = with_tokenizer(options, self.model)
        found = read_sentences(corpus, column=options, max_chars=LONGEST, with_columns=True)
        sentences: Iterable[Sentence] = watch_documents(found, emptied) if options.split else found
        if vectors is not None:
            sentences = list(sentences)
            if len(sentences) != len(vectors):
                raise InputError(f"{len(vectors)} vectors for {len(sentences)} sentences: pass one for each")
        fit = TextFit(self.model) if vectors is None else None
        id_column = options.id_name if options.id and not options.split else None
        rows = RowWatch().over(make_rows(sentences, id_column, counts, vectors))
        total = estimate_sentences(corpus, options) if progress and vectors is None else None
        with Progress(total, desc="Indexing", faster=FASTER, show=progress) as bar:
            for part in iter(lambda: list(islice(rows, _PART if vectors is None else _GIVEN_PART)), []):
                self.add_rows(part, counts, fit)
                bar.update(len(part))
        if emptied and self.has_passages:
            self.delete(where={"document": list(emptied)})
        if fit is not None:
            fit.warn()
        return counts

    def add_rows(self, part: list[Row], counts: dict[str, int], fit: TextFit | None = None) -> None:
        """Commit new rows and count them; encode those without a vector."""
        pa, _ = import_pyarrow()
        rows = distinct(part)
        known = self.rows.find([row.id for row in rows]) if rows else {}
        new = changed(rows, known)
        counts["repeated"] += len(part) - len(rows)
        counts["unchanged"] += len(rows) - len(new)
        if not new:
            return
        bare = [row for row in new if row.vector is None]
        if bare:
            if fit is not None:
                fit.add([row.text for row in bare])
            for row, vector in zip(bare, self.model.encode([row.text for row in bare]), strict=True):
                row.vector = vector
        made = check_vectors(np.array([row.vector for row in new]), self.about.dimension)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(made.ravel()), self.about.dimension)
        own = {"id": [row.id for row in new], "text": [row.text for row in new], "vector": vectors}
        with self.folder.locked():
            table = pa.table({**own, **columns_of(new, self.rows.table.schema)})
            self.rows.write(table, replace=any(row.named for row in new))
            self.rows.delete_left_passages(new, known)
        replaced = sum(row.id in known for row in new)
        counts["replaced"] += replaced
        counts["added"] += len(new) - replaced

    def delete(
        self, ids: str | int | list[Any] | None = None, *, where: Mapping[str, Any] | None = None
    ) -> int:
        """Delete sentences by ids or by a filter (see `search`), and return their number."""
        if (ids is None) == (where is None):
            raise InputError("pass either the ids to delete or a filter (`where`)")
        if where is None:
            given = [ids] if isinstance(ids, (str, int)) else list(ids or ())
            where = {"id": [str(identity) for identity in given]}
        with self.folder.locked():
            return self.rows.delete(where)

    def search(
        self,
        query: str | list[str] | np.ndarray,
        k: int = 10,
        *,
        where: Mapping[str, Any] | None = None,
        exact: bool = False,
        documents: bool | None = None,
    ) -> Any:
        """Find the sentences nearest to a query.

        :param query: One or more sentences, or their unit vectors from the index's model.
        :param k: The number of hits for each.
        :param where: A filter on id, text and columns, such as ``{"year": {"gt": 1990}, "lang": "en"}`` (see
            `rankencoder.search.filters`).
        :param exact: Compare with every sentence. Below 100,000 sentences every search is exact; above, it
            uses an approximate index.
        :param documents: Find k documents, each by its best passage; by default if there are passages.
        :return: A list of `Hit`, best first, for one sentence or vector; a list of such lists for several.
        :raises InputError: If the query or the filter is invalid.
        """
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        one = isinstance(query, str) or (isinstance(query, np.ndarray) and query.ndim == 1)
        if isinstance(query, np.ndarray):
            vectors = check_vectors(np.atleast_2d(query), self.about.dimension)
        else:
            texts = check_sentences(query)
            vectors = self.model.encode(texts) if texts else np.zeros((0, self.about.dimension))
        grouped = self.has_passages if documents is None else documents
        if grouped and not self.has_passages:
            raise InputError(f"{self.folder.path} has no documents: index with `split` to search them")
        search = self.rows.search_documents if grouped else self.rows.search
        found = search(vectors, min(k, max(1, len(self))), where, exact=exact) if len(vectors) else []
        calibration, curve = self.calibration, self.curve
        hits = [[Hit.of_row(row, calibration, curve) for row in rows] for rows in found]
        return hits[0] if one else hits

    @cached_property
    def curve(self) -> ThresholdCurve | None:
        """The precision and recall of thresholds, by labels of the index or else of its model."""
        own = self.folder.path
        name = self.about.model if self._model is None else self._model.name
        folder = own if (own / STORED).exists() else curve_folder(name)
        return None if folder is None else stored_curve(folder, lambda: self.model.identity())

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of scores; None with fewer than two sentences."""
        stored = self.folder.read_calibration()
        if stored is None:
            return self.calibrate()
        calibration, rows = stored
        is_stale = calibration.source != REFERENCE and not rows / 2 < len(self) < 2 * rows
        return self.calibrate() if is_stale else calibration

    def calibrate(self) -> Calibration | None:
        """Calibrate scores on the model's reference corpus, or else on the index's sentences."""
        rows = len(self)
        source = self.about.model if self._source is None else self._source
        if isinstance(source, RankEncoder) or rankencoder_folder(source) is not None:
            calibration = Calibration.on_reference(self.model)  # type: ignore[arg-type]
        elif rows < 2:
            return None
        else:
            calibration = Calibration.measure(self.rows.sample(SENTENCES), "the indexed sentences")
        self.folder.write_calibration(calibration, rows)
        return calibration

    def optimize(self) -> None:
        """Compact small files and, from 100,000 sentences on, create or refresh the approximate index.

        This is optional: it only makes searches faster.
        """
        with self.folder.locked():
            self.rows.optimize()
        _ = self.calibration  # measured now, not in the next search


def _as_encoder(model: RankEncoder | Encoder) -> Encoder:
    """Return a model as an encoder, whose vectors of probe sentences are the index's fingerprint."""
    if isinstance(model, Encoder):
        return model
    encoder = Encoder(model.encode)
    encoder.name = model.name
    return encoder
