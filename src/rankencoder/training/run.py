"""`train`: from unlabelled text to E1, E2 and a RankEncoder, one step of the plan after the other."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError
from rankencoder.io.manifest import MANIFEST, check_manifest, write_manifest
from rankencoder.io.storage import check_local, new_file, read_array, read_json, write_json
from rankencoder.training.config import describe_recipe, read_given
from rankencoder.training.gather import WAIT, is_first_process

if TYPE_CHECKING:
    import numpy as np
    from datasets import Dataset

    from rankencoder.model import RankEncoder
    from rankencoder.training.config import Given
    from rankencoder.training.methods.method import Method
    from rankencoder.training.plan import EncodeTargets, Plan, Step, TrainEncoder, WriteRankEncoder
    from rankencoder.training.sentences import Sentences
    from rankencoder.training.teaching.targets import Targets

LOG = logging.getLogger("rankencoder.training")


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

    Stage 1 trains E1 by a base method. E1 encodes the sentences and a reference corpus drawn from them.
    Stage 2 trains E2, from a fresh backbone, on E1's similarities. E2 is an ordinary SentenceTransformer.
    By default the preset "best" chooses: ConSERT and PromptBERT each train an E1, and both teach E2. With
    ``method`` it is that method's own recipe and the paper's stage 2.

    :param corpus: A text, ``.jsonl``, ``.csv``, ``.tsv`` or ``.parquet`` file, a folder of them, a
        ``datasets`` dataset, or an iterable of strings.
    :param output: The folder to write: ``encoder`` (E2), ``base`` (E1), ``teachers`` (E1 of other methods),
        ``rankencoder`` (E2 with its reference corpus, Eq. 7), ``losses.svg``, ``rankencoder-run.json`` and
        ``train.yaml``.
    :param config: A YAML or TOML file of settings, such as the ``train.yaml`` of an earlier run.
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
        raise InputError("a resumed run has its own settings: leave the `config` file out")
    given = _given(corpus, output, config, settings)
    if "output" not in given.values:
        raise InputError("no output folder: set `output`")
    folder = Path(given.values["output"])
    check_local(folder)
    from rankencoder.training.plan import make_plan
    from rankencoder.training.run_folder import locked, resumed_settings

    with locked(folder) if is_first_process() else nullcontext():
        if resume:
            given = resumed_settings(folder, given)
        plan = make_plan(given)
        run = Execution(plan, folder, sys.stderr.isatty() if progress is None else progress)
        if not resume:
            source = plan.config.corpus or (corpus if not isinstance(corpus, (str, Path)) else None)
            run.begin(source, given, overwrite=overwrite)
        return run.finish()


def plan_training(
    corpus: Any = None,
    output: str | Path | None = None,
    *,
    config: str | Path | None = None,
    **settings: Any,
) -> Plan:
    """Return what `train` would do with these arguments; nothing is written.

    :raises InputError: As `train` does, but for the corpus, which is not read.
    """
    given = _given(corpus, output, config, settings)
    from rankencoder.training.plan import make_plan

    return make_plan(given)


def _given(
    corpus: Any, output: str | Path | None, config: str | Path | None, settings: dict[str, Any]
) -> Given:
    """Return the settings that were given, checked one by one."""
    _need_libraries()
    if isinstance(corpus, (str, Path)):
        settings = {**settings, "corpus": str(corpus)}
    if output is not None:
        settings = {**settings, "output": str(output)}
    return read_given(settings, None if config is None else Path(config))


def _need_libraries() -> None:
    try:
        import accelerate  # noqa: F401
        import datasets  # noqa: F401
        import matplotlib  # noqa: F401
        import yaml  # noqa: F401
    except ImportError as error:
        raise InputError(f"training needs {error.name}: pip install 'rankencoder[train]'") from error


class Execution:
    """Runs the steps of a plan in a folder. What is there already is not made again."""

    def __init__(self, plan: Plan, folder: Path, progress: bool) -> None:
        from accelerate import PartialState

        self.plan, self.folder, self.work = plan, folder, folder / "work"
        self.processes = PartialState(cpu=plan.config.device == "cpu", timeout=WAIT)
        self.is_main: bool = self.processes.is_main_process
        self.progress = progress and self.is_main
        self.timings: dict[str, float] = {}
        self.rows: dict[str, Dataset] = {}

    def begin(self, corpus: Any, given: Given, *, overwrite: bool) -> None:
        """Store the sentences in a new folder, and the settings to resume with."""
        from rankencoder.training.checks import check_batches
        from rankencoder.training.run_folder import new_run
        from rankencoder.training.sentences import check_language, store_sentences

        config = self.plan.config
        if corpus is None:
            raise InputError("no corpus to train on: give a file or folder of sentences")
        with self._timed("sentences"):
            if self.is_main:
                with new_run(self.folder, given, config, overwrite=overwrite):
                    self.work.mkdir(parents=True, exist_ok=True)
                    stored = store_sentences(
                        corpus, self.work, column=config.column or None, progress=self.progress
                    )
                    for step in self.plan.trainings():
                        check_batches(step.config, len(stored))
                    method = self.plan.trainings()[0].method
                    check_language(stored, self.plan.backbones.fresh(method).tokenizer)

    def finish(self) -> TrainingRun:
        """Run the steps that are not done, write the record, and clear what was needed on the way."""
        from rankencoder.training.plan import EncodeTargets, TrainEncoder, WriteRankEncoder
        from rankencoder.training.run_outputs import new_record, write_record

        self.record = new_record(self.plan, self.sentences)
        if self.is_main:
            write_record(self.folder, self.record)
            for line in describe_recipe(self.plan.config, len(self.sentences)):
                LOG.info("%s", line)
        run = {
            TrainEncoder: self._train,
            EncodeTargets: self._encode_targets,
            WriteRankEncoder: self._write_rankencoder,
        }
        for step in self.plan.steps[1:]:
            done = self._is_done(step)
            self.processes.wait_for_everyone()  # or a fast process would make what a slow one looks for
            if not done:
                with self._timed(step.output):
                    run[type(step)](step)  # type: ignore[operator]
        self._close()
        return TrainingRun(self.folder, self.record)

    @cached_property
    def sentences(self) -> Sentences:
        """The stored sentences."""
        from rankencoder.training.sentences import load_sentences

        return load_sentences(self.work)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Take the time until all processes are through."""
        began = time.perf_counter()
        yield
        self.processes.wait_for_everyone()
        self.timings[name] = time.perf_counter() - began

    def _is_done(self, step: Step) -> bool:
        from rankencoder.training.plan import EncodeTargets

        output = self.folder / step.output
        if isinstance(step, EncodeTargets):
            try:
                return check_manifest(output)
            except InputError:
                return False  # it is damaged
        return output.exists()

    def _train(self, step: TrainEncoder) -> None:
        """Train E1 or E2, and write it."""
        from transformers import set_seed

        from rankencoder.training.loop.stage import Stage, train_stage
        from rankencoder.training.run_outputs import save_encoder

        logs = self.folder / "logs" / Path(step.work).relative_to("work")
        stage = Stage(step.number, step.config, step.method, self.folder / step.work, logs)
        rows, vectors = self._prepare(step.method)
        set_seed(stage.seed)
        backbone = self.plan.backbones.fresh(step.method)
        loss: Any = step.method.loss(step.method.encoder(backbone), backbone)
        if step.number == 2:
            from rankencoder.training.teaching.students import student_loss

            loss = student_loss(step.config, loss, self._targets)
            vectors |= {f"teacher{i}": table for i, table in enumerate(self._targets.teachers)}
        trained = train_stage(stage, loss, backbone, rows, vectors=vectors, progress=self.progress)
        if self.is_main:
            with new_file(_about(stage.checkpoints)) as path:
                write_json(path, trained.about)
            save_encoder(trained, self.folder / step.output, step.config, self.sentences)
        self.processes.wait_for_everyone()
        if trained.interrupted:
            raise KeyboardInterrupt

    def _prepare(self, method: Method) -> tuple[Dataset, dict[str, np.ndarray]]:
        """Return what a method's views and loss want of the sentences, made once: columns and vectors."""
        from rankencoder.training.teaching.teachers import write_table

        if method.name not in self.rows:
            with self.processes.main_process_first():
                self.rows[method.name] = method.prepare(
                    self.sentences.rows, fingerprint=self.sentences.sha256, progress=self.progress
                )
        file = self.work / f"companion-{method.name}.npy"
        with self.processes.main_process_first():
            companion = method.companion(self.plan.config.torch_device) if self.is_main else None
            if companion is not None:
                write_table(companion, self.sentences, file, progress=self.progress)
        return self.rows[method.name], {"companion": read_array(file, "r")} if file.exists() else {}

    def _encode_targets(self, step: EncodeTargets) -> None:
        from rankencoder.training.teaching.teachers import encode_targets

        folder = self.folder / step.output
        if not self.is_main:
            return
        if (folder / MANIFEST).exists():
            shutil.rmtree(folder)  # finished once, and damaged since
        teachers = [str(self.folder / name) if self._is_own(name) else name for name in step.teachers]
        encode_targets(teachers, self.sentences, folder, self.plan.config, progress=self.progress)
        write_manifest(folder)

    def _is_own(self, teacher: str) -> bool:
        return any(step.output == teacher for step in self.plan.trainings())

    @cached_property
    def _targets(self) -> Targets:
        from rankencoder.training.teaching.teachers import load_targets

        return load_targets(self.work / "targets")

    def _write_rankencoder(self, step: WriteRankEncoder) -> None:
        from rankencoder.reference import Reference
        from rankencoder.training.teaching.students import write_rankencoder
        from rankencoder.training.teaching.teachers import reference_folder

        if self.is_main:
            write_rankencoder(
                self.folder / "encoder",
                Reference.load(reference_folder(self.work / "targets")),
                self.folder / step.output,
                self.plan.config,
                beside=self.work / "own-reference",
                progress=self.progress,
            )

    def _close(self) -> None:
        """Write record and picture, and delete checkpoints and vectors."""
        from rankencoder.training.loss_picture import draw_losses
        from rankencoder.training.run_outputs import PICTURE, close_record, write_record

        abouts = [(step, read_json(_about(self.folder / step.work))) for step in self.plan.trainings()]
        history = close_record(self.record, abouts, self.timings)
        if self.is_main:
            if any("contrastive" in entry for entry in history):
                title = f"{self.plan.config.method} on {Path(self.plan.config.backbone).name}"
                draw_losses(history, self.folder / PICTURE, title=title)
            write_record(self.folder, self.record)  # from now on the run is finished
            shutil.rmtree(self.work)
        self.processes.wait_for_everyone()


def _about(checkpoints: Path) -> Path:
    """Return where what is to be known of a finished stage is kept."""
    return checkpoints.with_suffix(".json")
