"""`train`: from unlabelled text to E1, E2 and a RankEncoder."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError
from rankencoder.io.storage import check_local, new_file, read_array, read_json, write_json
from rankencoder.training.checks import check_compile, check_kind, check_length, check_machine
from rankencoder.training.config import describe_recipe, read_given
from rankencoder.training.gather import WAIT, is_first_process
from rankencoder.training.run_folder import Claim, claim_folder, locked
from rankencoder.training.teaching.teachers import check_teachers, train_teacher

if TYPE_CHECKING:
    import numpy as np
    from datasets import Dataset

    from rankencoder.model import RankEncoder
    from rankencoder.training.methods.method import Method
    from rankencoder.training.sentences import Sentences
    from rankencoder.training.teaching.targets import Targets

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingRun:
    """The folder that a training wrote.

    :param folder: Holds ``encoder`` (E2), ``base`` (E1), ``rankencoder``, record, settings and picture.
    :param record: Settings, seeds, versions, corpus and timings.
    """

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
    """Train a sentence encoder on unlabelled text, in two stages.

    Stage 1 trains E1 by a base method. The reference corpus is drawn and encoded by E1. Stage 2 trains E2,
    from a fresh backbone, on E1's similarities. E2 is an ordinary SentenceTransformer. With a ``method`` that
    is done as the paper does; without, by the recipe that did best in our experiments (preset "best"):
    ConSERT and PromptBERT each train an E1, and both teach E2.

    :param corpus: A text, ``.jsonl``, ``.csv``, ``.tsv`` or ``.parquet`` file, a folder of them, a
        ``datasets`` dataset, or an iterable of strings.
    :param output: The folder to write: ``encoder`` (E2), ``base`` (E1), ``teachers`` (E1 of other methods),
        ``rankencoder`` (E2 with its reference corpus, Eq. 7), ``losses.svg``, ``rankencoder-run.json`` and
        ``train.yaml``.
    :param config: A YAML or TOML file of settings, such as the ``train.yaml`` of an earlier run.
    :param resume: Go on with an interrupted run in ``output``; it ends as if it had never been interrupted.
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
    _need_libraries()
    if resume and config is not None:
        raise InputError("a resumed run has its own settings: leave the config file out")
    source = str(corpus) if isinstance(corpus, (str, Path)) else None
    given = {
        name: str(value) for name, value in (("corpus", source), ("output", output)) if value is not None
    }
    chosen = read_given({**settings, **given}, config)
    target = chosen.values.get("output", "")
    if not target:
        raise InputError("no output folder: give `output`")
    check_local(target)
    watched = sys.stderr.isatty() if progress is None else progress
    with locked(Path(target)) if is_first_process() else nullcontext():
        with claim_folder(chosen, {*settings, *given}, resume=resume, overwrite=overwrite) as claim:
            if source is not None or corpus is None:
                corpus = claim.given.values.get("corpus")
            if corpus is None and not (claim.work / "sentences.json").exists():
                raise InputError("there is no corpus to train on: give a file or folder of sentences")
            run = _Run(claim, watched)
            run.prepare(corpus)
        return run.finish()


def _need_libraries() -> None:
    try:
        import accelerate  # noqa: F401
        import datasets  # noqa: F401
        import matplotlib  # noqa: F401
        import yaml  # noqa: F401
    except ImportError as error:
        raise InputError(f"training needs {error.name}: pip install 'rankencoder[train]'") from error


class _Run:
    """A training from its settings to its results. What is on disk already is not made again."""

    def __init__(self, claim: Claim, progress: bool) -> None:
        from accelerate import PartialState

        from rankencoder.training.loop.stage import backbone_of, on_gpu
        from rankencoder.training.methods import find_method, make_method

        config = claim.given.draft
        check_machine(config)
        self.claim, self.folder, self.work = claim, claim.folder, claim.work
        self.processes = PartialState(cpu=config.device == "cpu", timeout=WAIT)
        self.progress = progress and self.processes.is_main_process
        cls = find_method(config.method)
        backbone = backbone_of(config, cls)
        check_kind(config.method, cls, backbone)
        self.teachers = check_teachers(claim.given, backbone)
        resolved = claim.given.resolve(backbone, cls)
        self.config = resolved if on_gpu(config) else resolved.model_copy(update={"precision": "fp32"})
        self.method: Method = make_method(config.method, self.config.options, {})
        check_length(self.config, backbone)
        self.method.check(backbone)
        if self.processes.is_main_process:
            check_compile(self.config, self.method)
        self.method.encoder(backbone)  # says what does not fit, such as a tokenizer without [MASK]
        self.tokenizer = backbone.tokenizer
        self.added_dropout = backbone.dropout
        self.timings: dict[str, float] = {}

    def prepare(self, corpus: Any) -> None:
        """Store the sentences, the settings and a first record."""
        from rankencoder.training.loop.stage import check_batches
        from rankencoder.training.run_outputs import new_record, write_record
        from rankencoder.training.sentences import check_language, load_sentences, store_sentences

        with self._first("read"):
            if self.processes.is_main_process:
                self.work.mkdir(parents=True, exist_ok=True)
                stored = store_sentences(
                    corpus, self.work, column=self.config.column or None, progress=self.progress
                )
                for config in (self.config, *self.teachers):
                    check_batches(config, len(stored))
                check_language(stored, self.tokenizer)
                self.claim.accept(self.config)
        self.sentences: Sentences = load_sentences(self.work)
        if self.processes.is_main_process:
            for line in describe_recipe(self.config, len(self.sentences)):
                logger.info(line)
        self.record = new_record(self.config)
        self.record["added_dropout"] = self.added_dropout
        self.record["corpus"] = {
            "path": self.config.corpus or None,
            "sha256": self.sentences.sha256,
            **vars(self.sentences.counts),
        }
        if self.processes.is_main_process:
            write_record(self.folder, self.record)

    @contextmanager
    def _first(self, name: str) -> Iterator[None]:
        """Let the first process go before the others, and take the time."""
        began = time.perf_counter()
        with self.processes.main_process_first():
            yield
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - began

    def finish(self) -> TrainingRun:
        """Run the stages, write what comes out, and clear what was needed on the way."""
        with self._first("prepare"):
            rows = self.method.prepare(
                self.sentences.rows, fingerprint=self.sentences.sha256, progress=self.progress
            )
        self.companion = self._companion()
        teachers = self._teachers(rows)
        if not self.config.only_base:
            self._rank_stages(rows, teachers)
        self._close()
        return TrainingRun(self.folder, self.record)

    def _teachers(self, rows: Dataset) -> list[str]:
        """Return the folders or names of each E1, trained if none is given."""
        if self.config.base_encoder:
            return self.config.base_encoder
        folders = []
        for name in self.config.teachers or [self.config.method]:
            own = name == self.config.method
            folders.append(self.folder / "base" if own else self.folder / "teachers" / name)
            if not own:
                self._teacher(name, folders[-1])
            elif not folders[-1].exists():
                self._stage(1, rows, folders[-1], None)
        return [str(folder) for folder in folders]

    def _teacher(self, name: str, folder: Path) -> None:
        """Train the E1 of another method, with the settings that were given."""
        work, given = self.work / "teachers" / name, self.claim.given
        began = time.perf_counter()
        about = train_teacher(
            name, folder, work, given, self.sentences, self.processes, progress=self.progress
        )
        self.timings[f"teacher {name}"] = time.perf_counter() - began
        self.record.setdefault("teachers", {})[name] = about

    def _companion(self) -> np.ndarray | None:
        """Return the vectors of the sentences that the method's loss wants, computed once."""
        from rankencoder.training.teaching.teacher_vectors import write_vectors

        file = self.work / "companion.npy"
        with self._first("companion"):
            encoder = (
                self.method.companion(self.config.torch_device) if self.processes.is_main_process else None
            )
            if encoder is not None:
                write_vectors(encoder, self.sentences, file, progress=self.progress)
        return read_array(file, "r") if file.exists() else None

    def _stage(self, number: int, rows: Dataset, encoder: Path, targets: Targets | None) -> None:
        from rankencoder.training.loop.stage import train_stage
        from rankencoder.training.run_outputs import save_encoder

        trained = train_stage(
            self.config,
            self.method,
            rows,
            self.work / f"stage-{number}",
            number=number,
            targets=targets,
            companion=self.companion,
            progress=self.progress,
        )
        if self.processes.is_main_process:
            with new_file(self.work / f"stage-{number}.json") as path:
                write_json(path, trained.about)
            save_encoder(trained, encoder, self.config, self.sentences)
        self.processes.wait_for_everyone()
        if trained.stopped:
            raise KeyboardInterrupt

    def _rank_stages(self, rows: Dataset, teachers: list[str]) -> None:
        """Train E2 on what its teachers say, and write it with a reference corpus of its own."""
        from rankencoder.training.teaching.teacher_vectors import clear_targets, load_targets, make_targets

        folder = self.work / "round-1"
        if not (self.folder / "encoder").exists():
            with self._first("targets"):
                if self.processes.is_main_process:
                    make_targets(teachers, self.sentences, folder, self.config, progress=self.progress)
            self._stage(2, rows, self.folder / "encoder", load_targets(folder))
        with self._first("rankencoder"):
            if self.processes.is_main_process:
                clear_targets(folder)
                if not (self.folder / "rankencoder").exists():
                    self._make_rankencoder(folder)

    def _make_rankencoder(self, folder: Path) -> None:
        """Write E2 with the same reference corpus, as E2 sees it."""
        from rankencoder.model import RankEncoder
        from rankencoder.reference import Reference
        from rankencoder.training.teaching.teacher_vectors import (
            draw_reference,
            load_encoder,
            reference_folder,
        )

        drawn = Reference.load(reference_folder(folder)).sentences
        encoder = load_encoder(str(self.folder / "encoder"), self.config)
        beside = self.work / "own-reference"
        own = draw_reference(encoder, drawn, len(drawn), beside, progress=self.progress)
        model = RankEncoder(
            encoder, own, form=self.config.form, rank_weight=self.config.rank_weight, progress=False
        )
        model.save(self.folder / "rankencoder")

    def _close(self) -> None:
        """Write record and picture, and delete checkpoints and vectors."""
        from rankencoder.training.loss_picture import draw_losses
        from rankencoder.training.run_outputs import PICTURE, rank_share, write_record

        stages = [read_json(path) for path in self.work.glob("stage-*.json")]
        stages.sort(key=lambda stage: stage["stage"])
        history = [entry for stage in stages for entry in stage.pop("history")]
        self.record.update(
            finished=True,
            stages=stages,
            seconds={name: round(seconds, 3) for name, seconds in self.timings.items()},
            rank_larger=rank_share(history),
            history=history,
        )
        if self.processes.is_main_process:
            if any("contrastive" in entry for entry in history):
                title = f"{self.config.method} on {Path(self.config.backbone).name}"
                draw_losses(history, self.folder / PICTURE, title=title)
            write_record(self.folder, self.record)  # from now on the run is finished
            shutil.rmtree(self.work)
        self.processes.wait_for_everyone()
