"""Runs the plan of a training: one step after the other, from where an interrupted run stopped."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import PartialState
from datasets import Dataset
from transformers import set_seed

from rankencoder.errors import InputError
from rankencoder.io.manifest import MANIFEST, check_manifest, write_manifest
from rankencoder.io.storage import new_file, read_array, read_json, write_json
from rankencoder.reference import Reference
from rankencoder.training.checks import check_batches, check_compile
from rankencoder.training.config import Given, describe_recipe
from rankencoder.training.gather import WAIT
from rankencoder.training.loop.stage import Stage, train_stage
from rankencoder.training.loss_picture import draw_losses
from rankencoder.training.methods.method import Method
from rankencoder.training.plan import EncodeTargets, Plan, Step, TrainEncoder, WriteRankEncoder
from rankencoder.training.run_folder import new_run
from rankencoder.training.run_outputs import PICTURE, close_record, new_record, save_encoder, write_record
from rankencoder.training.sentences import Sentences, check_language, load_sentences, store_sentences
from rankencoder.training.teaching.students import student_loss, write_rankencoder
from rankencoder.training.teaching.targets import Targets
from rankencoder.training.teaching.teachers import encode_targets, load_targets, reference_folder, write_table

LOG = logging.getLogger("rankencoder.training")


class Execution:
    """Runs the steps of a plan in a folder. What is there already is not made again."""

    def __init__(self, plan: Plan, folder: Path, progress: bool) -> None:
        self.plan, self.folder, self.work = plan, folder, folder / "work"
        self.processes = PartialState(cpu=plan.config.device == "cpu", timeout=WAIT)
        self.is_main: bool = self.processes.is_main_process
        self.progress = progress and self.is_main
        if self.is_main:
            last = plan.trainings()[-1]
            check_compile(last.config, last.method)
        self.timings: dict[str, float] = {}
        self.rows: dict[str, Dataset] = {}

    def begin(self, corpus: Any, given: Given, *, overwrite: bool) -> None:
        """Store the sentences in a new folder, and the settings to resume with."""
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

    def finish(self) -> dict[str, Any]:
        """Run the steps that are not done, clear what was needed on the way, and return the record."""
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
        return self.record

    @cached_property
    def sentences(self) -> Sentences:
        """The stored sentences."""
        return load_sentences(self.work)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Take the time until all processes are through."""
        began = time.perf_counter()
        yield
        self.processes.wait_for_everyone()
        self.timings[name] = time.perf_counter() - began

    def _is_done(self, step: Step) -> bool:
        output = self.folder / step.output
        if isinstance(step, EncodeTargets):
            try:
                return check_manifest(output)
            except InputError:
                return False  # it is damaged
        return output.exists()

    def _train(self, step: TrainEncoder) -> None:
        """Train E1 or E2, and write it."""
        logs = self.folder / "logs" / Path(step.work).relative_to("work")
        stage = Stage(step.number, step.config, step.method, self.folder / step.work, logs)
        rows, vectors = self._prepare(step.method)
        set_seed(stage.seed)
        backbone = self.plan.backbones.fresh(step.method)
        loss: Any = step.method.loss(step.method.encoder(backbone), backbone)
        if step.number == 2:
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
        return load_targets(self.work / "targets")

    def _write_rankencoder(self, step: WriteRankEncoder) -> None:
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
        abouts = [(step, read_json(_about(self.folder / step.work))) for step in self.plan.trainings()]
        self.processes.wait_for_everyone()  # until all have read
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
