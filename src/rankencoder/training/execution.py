"""Run the plan of a training, resuming where it stopped."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from datasets import Dataset
from transformers import set_seed

from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.forms import ExactForm
from rankencoder.io.manifest import check_manifest
from rankencoder.io.storage import read_json
from rankencoder.model import RankEncoder
from rankencoder.reference import SEED, Reference
from rankencoder.training.config import Given
from rankencoder.training.gather import WAIT
from rankencoder.training.loop.collator import ViewCollator
from rankencoder.training.loop.evaluators import make_evaluator, unlabeled_evaluator
from rankencoder.training.loop.packing import PackedLayers, can_pack
from rankencoder.training.loop.stage import (
    StageResult,
    is_compiled,
    train_stage,
    training_arguments,
    uses_graphs,
)
from rankencoder.training.loss_picture import draw_losses
from rankencoder.training.methods.method import Method
from rankencoder.training.plan import BackboneCache, Plan, TrainEncoder, check_batches, check_compile
from rankencoder.training.run_folder import new_run
from rankencoder.training.run_outputs import PICTURE, close_record, new_record, save_encoder, write_record
from rankencoder.training.sentences import Sentences, load_sentences, store_sentences, warn_if_unsuitable
from rankencoder.training.teaching.rankencoder_loss import RankEncoderLoss
from rankencoder.training.teaching.targets import Targets
from rankencoder.training.teaching.teachers import (
    BATCH,
    EncodedSentences,
    is_whole,
    load_vectors,
    write_vectors,
)

LOG = logging.getLogger("rankencoder.training")
_LOSS_SETTINGS = ("lower", "upper", "combine", "diagonal", "student", "target", "listwise")


class Execution:
    """Runs the steps of a plan in a folder, except those already done."""

    def __init__(self, plan: Plan, folder: Path, progress: bool) -> None:
        self.plan, self.folder, self.work = plan, folder, folder / "work"
        self.device = plan.config.torch_device
        self.processes = PartialState(cpu=self.device == "cpu", timeout=WAIT)
        self.is_main: bool = self.processes.is_main_process
        self.progress = progress and self.is_main
        if self.is_main:
            last = plan.trainings[-1]
            check_compile(last.config, last.method)
        self.timings: dict[str, float] = {}
        self.prepared: dict[str, tuple[Dataset, dict[str, np.ndarray]]] = {}

    def begin(self, corpus: Any, given: Given, *, overwrite: bool) -> None:
        """Store the sentences in a new folder, and the settings to resume with."""
        config = self.plan.config
        if corpus is None:
            raise InputError("no corpus to train on: pass a file or folder of sentences")
        with self._timed("sentences"):
            if self.is_main:
                with new_run(self.folder, given, config, overwrite=overwrite) as new:
                    stored = store_sentences(
                        corpus, new / "work", column=config.reading, progress=self.progress
                    )
                    for step in self.plan.trainings:
                        check_batches(step.config, len(stored))
                    method = self.plan.trainings[0].method
                    warn_if_unsuitable(stored, self.plan.backbones.fresh(method).tokenizer)

    def finish(self) -> dict[str, Any]:
        """Run the remaining steps, delete intermediate files and return the record."""
        self.record = new_record(self.plan.config, self.sentences)
        if self.is_main:
            write_record(self.folder, self.record)
            LOG.info("%s", self.plan)
        for step in self.plan.trainings:
            if step.stage == 2:
                with self._timed("work/targets"):
                    if self.is_main:
                        self._encode_targets()
            if self._is_done(step.output):
                saved = read_json(self._about(step))["files"]
                check_manifest(self.folder / step.output, known=saved, advice="train again with `overwrite`")
            else:
                with self._timed(step.output):
                    self._train(step)
        if not self.plan.config.only_base and not self._is_done("rankencoder"):
            with self._timed("rankencoder"):
                if self.is_main:
                    self._write_rankencoder()
        self._close()
        return self.record

    def _is_done(self, output: str) -> bool:
        done = (self.folder / output).exists()
        self.processes.wait_for_everyone()  # before a fast process creates it
        return done

    @cached_property
    def sentences(self) -> Sentences:
        """The stored sentences."""
        return load_sentences(self.work)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Measure the time until all processes are done."""
        began = time.perf_counter()
        yield
        self.processes.wait_for_everyone()
        self.timings[name] = time.perf_counter() - began

    def _train(self, step: TrainEncoder) -> None:
        """Train E1 or E2, and write it."""
        rows, vectors = self._prepare(step.method)
        trained = train_encoder(
            step,
            self.plan.backbones,
            rows,
            checkpoints=self.work / step.work,
            logs=self.folder / "logs" / step.work,
            vectors=vectors,
            targets=self._targets() if step.stage == 2 else None,
            progress=self.progress,
        )
        if self.is_main:
            output = self.folder / step.output
            save_encoder(trained, output, self._about(step), step.config, self.sentences)
        self.processes.wait_for_everyone()
        if trained.interrupted:
            raise KeyboardInterrupt

    def _prepare(self, method: Method) -> tuple[Dataset, dict[str, np.ndarray]]:
        """Return the columns and vectors that a method's views and loss need, computed once."""
        if method.name not in self.prepared:
            folder = self.work / f"companion-{method.name}"
            with self.processes.main_process_first():
                rows = method.prepare(
                    self.sentences.rows, fingerprint=self.sentences.sha256, progress=self.progress
                )
                if self.is_main and not is_whole(folder) and (companion := method.companion(self.device)):
                    source = EncodedSentences(companion, self.sentences)
                    write_vectors(source, self.sentences, folder, progress=self.progress)
            vectors = {"companion": load_vectors(folder)} if folder.exists() else {}
            self.prepared[method.name] = rows, vectors
        return self.prepared[method.name]

    def _targets(self) -> Targets:
        """Open the teachers' vectors, which are memory-mapped."""
        references = [Reference.load(folder).vectors for folder in self._teachers]
        return Targets([load_vectors(folder) for folder in self._teachers], references)

    @cached_property
    def _teachers(self) -> list[Path]:
        """The folders of the teachers' vectors."""
        return [self.work / "targets" / f"teacher-{i}" for i, _ in enumerate(self.plan.teachers)]

    def _encode_targets(self) -> None:
        """Encode the sentences, and a reference corpus drawn from them, by each teacher."""
        own = {training.output: training.method for training in self.plan.trainings}
        for source, folder in zip(self.plan.teachers, self._teachers, strict=True):
            if is_whole(folder):
                continue
            path = self.folder / source if source in own else source
            encoder = Encoder(path, device=self.device, batch_size=BATCH)
            size = self.plan.config.reference_size
            reference = Reference.build(
                encoder,
                self.sentences.sample(size, SEED, progress=self.progress),
                size=size,
                progress=self.progress,
                resume_beside=folder.with_name(f"{folder.name}-reference"),
            )
            method = own.get(source, self.plan.trainings[-1].method)
            rows = EncodedSentences(method.teaching_encoder(encoder), self.sentences)
            write_vectors(rows, self.sentences, folder, reference=reference, progress=self.progress)

    def _write_rankencoder(self) -> None:
        """Write E2 with its teachers' reference corpus, encoded by E2 (Eq. 7)."""
        config, beside = self.plan.config, self.work / "own-reference"
        student = Encoder(self.folder / "encoder", device=self.device, batch_size=BATCH)
        drawn = Reference.load(self._teachers[0]).sentences
        own = Reference.build(student, drawn, size=len(drawn), progress=self.progress, resume_beside=beside)
        model = RankEncoder(student, own, form=config.form, rank_weight=config.rank_weight, progress=False)
        if not config.normalize_reference:
            lengths = student.raw(own.sentences, progress=self.progress).norm(dim=1)
            model.form = ExactForm(model.form.reference, lengths)
        model.save(self.folder / "rankencoder")

    def _close(self) -> None:
        """Write record and plot, and delete checkpoints and vectors."""
        abouts = [(step, read_json(self._about(step))) for step in self.plan.trainings]
        self.processes.wait_for_everyone()  # until all have read it
        history = close_record(self.record, abouts, self.timings)
        if self.is_main:
            if any("contrastive" in entry for entry in history):
                title = f"{self.plan.config.method} on {Path(self.plan.config.backbone).name}"
                draw_losses(history, self.folder / PICTURE, title=title)
            write_record(self.folder, self.record)  # from now on the run is finished
            shutil.rmtree(self.work)
        self.processes.wait_for_everyone()

    def _about(self, step: TrainEncoder) -> Path:
        """Return the file of a finished stage's part of the record."""
        return (self.work / step.work).with_suffix(".json")


def train_encoder(
    step: TrainEncoder,
    backbones: BackboneCache,
    rows: Dataset,
    *,
    checkpoints: Path,
    logs: Path,
    vectors: dict[str, np.ndarray],
    targets: Targets | None,
    progress: bool,
) -> StageResult:
    """Train E1, or E2 which also learns its teachers' similarities (Eq. 5 and 6), from a fresh backbone."""
    config, method = step.config, step.method
    set_seed(config.seed)
    backbone = backbones.fresh(method)
    loss: Any = method.loss(method.encoder(backbone), backbone)
    if targets is not None:
        chosen = {name: getattr(config, name) for name in _LOSS_SETTINGS}
        references = [torch.from_numpy(reference) for reference in targets.references]
        loss = RankEncoderLoss(loss, references, weight=config.rank_loss_weight, **chosen)
        vectors = {**vectors, **{f"teacher{i}": table for i, table in enumerate(targets.teachers)}}
    graphs = uses_graphs(config, method)
    args = training_arguments(config, checkpoints)
    args.dataloader_pin_memory = args.device.type == "cuda" and not graphs  # pinning disturbs a capture
    collate = ViewCollator(method, backbone, config.max_length, vectors, 8 if graphs else 1)
    if can_pack(backbone, args.device, config.precision):
        half = torch.bfloat16 if config.precision == "bf16" else torch.float16
        collate.pack(rows, config.batch_size, args.device, half)
    with PackedLayers(loss, backbone.module) if collate.packed else nullcontext():
        return train_stage(
            loss,
            rows,
            collate,
            args,
            logs=logs,
            name=f"stage {step.stage}" if step.output in ("base", "encoder") else f"teacher {method.name}",
            title=f"Stage {step.stage} ({method.name})" if progress else "",
            evaluator=make_evaluator(config.dev) or unlabeled_evaluator(rows),
            patience=config.patience,
            graphs=graphs,
            compiled=is_compiled(config, len(rows)),
        )
