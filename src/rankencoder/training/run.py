"""The public function `train`."""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError, MissingExtraError
from rankencoder.training.config import Given, read_given
from rankencoder.training.gather import is_first_process
from rankencoder.training.run_settings import is_in_memory

if TYPE_CHECKING:
    from rankencoder.model import RankEncoder
    from rankencoder.training.plan import Plan


@dataclass(frozen=True)
class TrainingRun:
    """The folder that a training wrote, and its record: settings, seeds, versions, corpus and timings."""

    folder: Path
    record: dict[str, Any]

    @property
    def encoder(self) -> Path:
        """The trained encoder, an ordinary SentenceTransformer: E2, or E1 where only that was trained."""
        return self.folder / ("base" if self.record["config"]["only_base"] else "encoder")

    def load(self) -> RankEncoder:
        """Return E2 with its reference corpus."""
        from rankencoder.model import RankEncoder

        return RankEncoder.load(self.folder / "rankencoder")


def train(
    corpus: Any = None,
    output: str | Path | None = None,
    *,
    config: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | None = None,
    **settings: Any,
) -> TrainingRun:
    """Train a sentence encoder on unlabeled text, in two stages.

    Stage 1 trains E1 by a base method. E1 encodes the sentences and a reference corpus drawn from them.
    Stage 2 trains E2, from a fresh backbone, on E1's similarities. E2 is an ordinary SentenceTransformer.
    By default the preset "best" chooses: ConSERT and PromptBERT each train an E1, and both teach E2. With
    ``method`` it is that method's own recipe and the paper's stage 2.

    :param corpus: A text, ``.jsonl``, ``.csv``, ``.tsv`` or ``.parquet`` file, a folder of them, a
        ``datasets`` dataset, or an iterable of strings.
    :param output: The folder to write: ``encoder`` (E2), ``base`` (E1), ``teachers`` (E1 of other methods),
        ``rankencoder`` (E2 with its reference corpus, Eq. 7), ``losses.svg``, ``rankencoder-run.json`` and
        ``train.yaml``.
    :param config: A YAML file of settings, such as the ``train.yaml`` of an earlier run.
    :param resume: Continue an interrupted run in ``output``; it ends as if it had never been interrupted.
    :param overwrite: Replace an earlier run in ``output``.
    :param progress: Show progress; by default on a terminal.
    :param settings: Any of `TrainConfig`: ``backbone``, ``method``, ``seed``, ``batch_size``, ``dev``, …
    :raises InputError: If a setting, the corpus or the backbone is not usable.

    >>> run = train(corpus, folder / "run", backbone=backbone, batch_size=8, max_steps=2, reference_size=1000)
    >>> sorted(path.name for path in run.folder.iterdir())
    ['base', 'encoder', 'losses.svg', 'rankencoder', 'rankencoder-run.json', 'teachers', 'train.yaml']
    >>> from sentence_transformers import SentenceTransformer
    >>> SentenceTransformer(str(run.encoder)).encode(["A cat sleeps."]).shape
    (1, 32)
    """
    if resume and config is not None:
        raise InputError("a resumed run keeps its own settings: leave out `config`")
    given = _given(corpus, output, config, settings)
    folder = given.folder
    from rankencoder.training.execution import Execution
    from rankencoder.training.plan import make_plan
    from rankencoder.training.run_folder import locked, resumed_settings

    with locked(folder) if is_first_process() else nullcontext():
        if resume:
            given = resumed_settings(folder, given, read_given)
        plan = make_plan(given)
        run = Execution(plan, folder, sys.stderr.isatty() if progress is None else progress)
        if not resume:
            source = corpus if is_in_memory(corpus) else plan.config.corpus or None
            run.begin(source, given, overwrite=overwrite)
        return TrainingRun(folder, run.finish())


def plan_training(
    corpus: Any = None,
    output: str | Path | None = None,
    *,
    config: str | Path | None = None,
    **settings: Any,
) -> Plan:
    """Return what `train` would do with these arguments, without reading the corpus or writing anything.

    :raises InputError: If a setting or the backbone is not usable.
    """
    given = _given(corpus, output, config, settings)
    from rankencoder.training.plan import make_plan

    return make_plan(given)


def _given(
    corpus: Any, output: str | Path | None, config: str | Path | None, settings: dict[str, Any]
) -> Given:
    """Return the given settings, each checked on its own."""
    need_libraries("training", "accelerate", "datasets", "matplotlib")
    name = "" if is_in_memory(corpus) else corpus
    return read_given({**settings, "corpus": name, "output": output}, config)


def need_libraries(work: str, *names: str) -> None:
    """Check that the libraries of the `train` extra are installed."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise MissingExtraError(f"{work} needs {error.name}", "train") from error
