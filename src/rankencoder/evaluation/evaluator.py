"""`evaluate`: score encoders on STS sets and on your own pairs, side by side."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.encoder_sources import check_model
from rankencoder.errors import InputError
from rankencoder.evaluation.results import Result, Row, make_result, rows, write_result
from rankencoder.evaluation.sts_data import (
    DEV,
    SEVEN,
    MissingDataError,
    PairSet,
    known_name,
    read_pair_set,
    read_sts,
)
from rankencoder.evaluation.subjects import open_subjects
from rankencoder.io.storage import cache_root, data_folder
from rankencoder.reference import SIZE

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.opening import Opening
    from rankencoder.evaluation.subjects import Source

SECTIONS = ("sts", "choice", "cost")


@dataclass(frozen=True)
class Evaluation:
    """Results of one or several models, and the files they were written to."""

    results: list[Result]
    files: list[Path] = field(default_factory=list)

    def rows(self) -> list[Row]:
        """Return a row of scores for each similarity of each model; runs that differ in seeds as one row."""
        return rows(self.results)

    def scores(self) -> dict[str, dict[str, float]]:
        """Return Spearman's correlation ×100 of each model's similarities, by set.

        Sets with yes/no labels (two different scores) have average precision ×100 instead.
        """
        found = self.rows()
        return {f"{row.label}, {row.system}": {s: row.mean(s) for s in row.values} for row in found}


def evaluate(
    models: Source | Sequence[Source],
    *,
    data: str | Path | None = None,
    dev: str | Path | Sequence[str | Path] = (),
    tasks: Sequence[str] = SECTIONS,
    corpus: Any = None,
    size: int = SIZE,
    output: str | Path | None = None,
    cache: str | Path | bool = True,
    progress: bool | None = None,
    **opening: Unpack[Opening],
) -> Evaluation:
    r"""Score encoders as the field does: by cosine and, with a reference corpus, by ranks and their blend.

    :param models: One or several: a RankEncoder or its folder, the folder of a training run (E1 and E2), or
        an encoder (a SentenceTransformer, its folder or hub name, or a callable).
    :param data: A folder of STS sets, in SentEval's layout or as plain files of scored pairs; by default the
        data that was fetched.
    :param dev: Your own pairs, scored or labeled yes/no: ``.tsv``, ``.csv`` or ``.jsonl`` files. The
        similarity is chosen on them in place of STS-B dev.
    :param tasks: Any of "sts", "choice" (the similarity `tune` would choose), "cost" (time and memory), or
        single sets such as "STS12".
    :param corpus: The corpus to draw a plain encoder's reference corpus from.
    :param size: Sentences of that reference corpus.
    :param output: A folder for the results, one JSON file per model.
    :param cache: Whether to cache vectors, or the cache folder.
    :param progress: Show progress; by default on a terminal.
    :param opening: How to run a model that is loaded by name, as for `open_model`.

    >>> def letters(texts):  # any function from strings to vectors is an encoder
    ...     return [[1 + text.count(c) for c in "aeiou"] for text in texts]
    >>> pairs = folder / "pairs.tsv"
    >>> _ = pairs.write_text("5\ta banana\tbananas\n1\ta banana\tan egg\n0\tunit\tan avocado\n")
    >>> evaluation = evaluate(letters, dev=pairs, tasks=["sts"], cache=False)
    >>> evaluation.scores()
    {'letters, cosine': {'pairs': 100.0}}
    """
    from rankencoder.evaluation.measurement import measure

    tasks = [tasks] if isinstance(tasks, str) else tasks
    asked = {known_name(task, (*SECTIONS, *SEVEN, *DEV), "task") for task in tasks}
    set_names = [name for name in (*SEVEN, *DEV) if name in asked]
    watched = sys.stderr.isatty() if progress is None else progress
    given = [models] if isinstance(models, (str, Path)) or not isinstance(models, Sequence) else list(models)
    if not given:
        raise InputError("no models to evaluate")
    for source in given:
        check_model(source)
    own = _own_sets([dev] if isinstance(dev, (str, Path)) else list(dev))
    fetched = data_folder() / "senteval"
    public = data or (fetched if fetched.is_dir() else None)
    if public is None and (not own or set_names):
        raise MissingDataError("there is no evaluation data, and no `dev` pairs of your own")
    sets = [*(read_sts(public, set_names or (*SEVEN, *DEV)) if public else ()), *own]
    if output is not None:
        Path(output).mkdir(parents=True, exist_ok=True)  # fail before the work
    kept = cache_root("vectors") if cache is True else Path(cache) if cache else None
    results, paths = [], []
    for source in given:
        model = open_subjects(source, corpus=corpus, size=size, cache=kept, progress=watched, **opening)
        found = measure(model, sets, own, asked, progress=watched)
        results.append(make_result(model, sets, found))
        if output is not None:
            paths.append(write_result(Path(output), results[-1]))
    return Evaluation(results, paths)


def _own_sets(files: Sequence[str | Path]) -> list[PairSet]:
    """Read the user's sets; a set whose name is taken is named by its path."""
    sets = [read_pair_set(file) for file in files]
    taken = Counter([*SEVEN, *DEV, "AVG", *(s.name for s in sets)])
    named = [replace(s, name=s.source) if taken[s.name] > 1 else s for s in sets]
    for name, number in Counter(s.name for s in named).items():
        if number > 1:
            raise InputError(f"{name} is given twice: pass each set of pairs once")
    return named
