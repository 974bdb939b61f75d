"""Run a distillation: encode with the teachers, train the student, measure and save it."""

from __future__ import annotations

import logging
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from transformers import set_seed

from rankencoder.distillation.agreement import (
    gain_noise,
    held_out_rows,
    measure_agreement,
    measure_gain,
    measure_speed,
    megabytes,
)
from rankencoder.distillation.api_encoder import ApiEncoder
from rankencoder.distillation.committee import Committee, cosine_scale, spread_rows
from rankencoder.distillation.distill_config import IN_PLACE, GivenDistillation
from rankencoder.distillation.distill_summary import write_card
from rankencoder.distillation.sentence_vectors import SentenceVectors, TextCollator
from rankencoder.distillation.static_student import corpus_tokenizer, make_static, token_texts
from rankencoder.distillation.student_sources import drop_layers, load_student, student_kind
from rankencoder.distillation.teacher_sources import (
    API,
    OBJECT,
    check_teacher,
    is_file,
    open_api,
    open_teacher,
    static_teacher,
    tokenizer_of,
)
from rankencoder.distillation.teacher_space import fit_map, map_into_space, space_recall
from rankencoder.distillation.vector_file import VectorFile
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError, TrainingWarning
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.storage import new_folder
from rankencoder.training.loop.evaluators import make_evaluator
from rankencoder.training.loop.stage import StageResult, train_stage, training_arguments
from rankencoder.training.plan import check_batches, check_machine
from rankencoder.training.run_folder import new_run
from rankencoder.training.run_outputs import new_record, write_record
from rankencoder.training.run_settings import is_in_memory
from rankencoder.training.sentences import Sentences, load_sentences, store_sentences, unknown_share
from rankencoder.training.teaching.distillation_loss import DistillationLoss
from rankencoder.training.teaching.targets import TeacherSimilarity
from rankencoder.training.teaching.teachers import BATCH, is_whole

LOG = logging.getLogger("rankencoder.distillation")
_HELD_OUT = 3  # minimum of held-out sentences: fewer have no two pairs to correlate
_MAPPED = 50_000  # sentences to fit the map into a teacher's space on


class DistillationRun:
    """The steps of a distillation in a folder; steps with finished output are skipped.

    :param objects: Teachers that are Python objects, by position.
    """

    def __init__(
        self, given: GivenDistillation, folder: Path, objects: dict[int, Any], progress: bool
    ) -> None:
        self.given, self.folder, self.work = given, folder, folder / "work"
        self.kind = student_kind(given.draft)
        self.config = given.resolve(self.kind)
        self.objects, self.progress = objects, progress
        self.vectors = SentenceVectors(self.config, self.work, objects, progress)
        self.seconds: dict[str, float] = {}

    def check(self) -> None:
        """Check that the teachers exist and differ, and that the student can learn from them."""
        names = self.config.teacher
        if not names:
            raise InputError("no teacher: set `teacher` to one encoder or several")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"teacher {twice} is given twice: set `weight` to give it more weight")
        check_machine(self.config)
        for name in names:
            check_teacher(name)
        for number, name in enumerate(names):
            if name.startswith(API):
                self.objects[number] = open_api(name, self.config)
                self.objects[number].probe()
        if self.kind == "static":
            static_teacher(self.config)
        if self.kind in IN_PLACE and len(names) == 1 and self._is_own_teacher(names[0]):
            raise InputError(
                f"{self.config.student} is both the student and the only teacher: add other "
                "teachers or choose a smaller student"
            )

    def _is_own_teacher(self, name: str) -> bool:
        if name.startswith((API, OBJECT)) or is_file(name):
            return False
        teacher, student = open_teacher(name, None, self.config), Encoder(load_student(self.config))
        return isinstance(teacher, Encoder) and teacher.fingerprint() == student.fingerprint()

    def begin(self, corpus: Any, *, overwrite: bool) -> None:
        """Store sentences and settings in a new folder."""
        source = corpus if is_in_memory(corpus) else self.config.corpus or None
        if source is None:
            raise InputError("no corpus to learn from: pass a file or folder of sentences")
        with new_run(self.folder, self.given, self.config, overwrite=overwrite) as new:
            stored = store_sentences(source, new / "work", column=self.config.reading, progress=self.progress)
            held_out = len(held_out_rows(len(stored), self.config.seed))
            if held_out < _HELD_OUT:
                raise InputError(f"{len(stored):,} sentences are too few to hold some out: add more text")
            check_batches(self.config, len(stored) - held_out)
            for name in filter(is_file, self.config.teacher):
                VectorFile(name, stored).check()
            if self.kind != "static":
                self._write_start(new / "work", stored)

    def confirm_costs(self, confirm: Callable[[str], bool] | None) -> None:
        """Log the estimated cost of APIs, and ask for confirmation before any text is sent.

        The estimate includes the words of a static student, which come from the sentences to teach.
        """
        for number, api in self.objects.items():
            if not isinstance(api, ApiEncoder):
                continue
            words: list[str] = []
            if self.kind == "static" and number == static_teacher(self.config):
                words = token_texts(corpus_tokenizer(None, self.taught))
            estimate = api.estimate(chain(self.sentences, words), price=self.config.api_price or None)
            LOG.info("%s", estimate)
            if confirm is not None and estimate.sentences and not confirm(str(estimate)):
                raise InputError("none of your text was sent: set `resume` to continue")

    @cached_property
    def sentences(self) -> Sentences:
        """The stored sentences."""
        return load_sentences(self.work)

    @cached_property
    def held_out(self) -> np.ndarray:
        """Row numbers of the held-out sentences."""
        return held_out_rows(len(self.sentences), self.config.seed)

    @cached_property
    def taught(self) -> Sentences:
        """The sentences to teach."""
        rows = np.setdiff1d(np.arange(len(self.sentences)), self.held_out)
        return replace(self.sentences, rows=self.sentences.rows.select(rows))

    def finish(self) -> dict[str, Any]:
        """Run the unfinished steps, write encoder, card and record, and return the record."""
        self.record = {"kind": "distillation", **new_record(self.config, self.sentences)}
        write_record(self.folder, self.record)
        with self._timed("teachers", f"Encoding {len(self.sentences):,} sentences with the teachers"):
            tables = [self._teacher(number) for number in range(len(self.config.teacher))]
        with self._timed("start", "Preparing the student"):
            start = self._start()
        committee = Committee(self.config.teacher, tables, np.array(self.taught.rows["row"]), self.config)
        origin = self.vectors.origin(self.sentences) if self.kind == "layers" else None
        held = self._held_vectors(start)
        # a student in use keeps its scale, one with fewer layers that of the whole encoder
        known = held if self.kind in IN_PLACE else committee.sample(tables[0] if origin is None else origin)
        similarity = committee.similarity(*cosine_scale(known))
        dissent = committee.warn_of_dissent(similarity)
        targets = committee.targets(similarity, self.held_out)
        before = measure_agreement(held, targets)
        with self._timed("teaching", "Teaching the student"):
            trained = self._teach(start, similarity, tables, origin)
        model, vectors = trained.model, self._held_vectors(trained.model)
        after, noise = measure_agreement(vectors, targets), gain_noise(held, vectors, targets)
        agreement: dict[str, Any] = {"before": before.record(), "noise": round(noise, 6)}
        if not self.config.dev and before.spearman - after.spearman > noise:
            agreement["taught"], after = after.record(), before
            model, vectors = self._start(), held
            LOG.warning("teaching moved the student away from its teachers: keeping the start")
        if self.config.space == "teacher":
            self._map_into_space(model, tables[0])
            vectors = self._held_vectors(model)
            after = measure_agreement(vectors, targets)
            own = np.asarray(tables[0][self.held_out], dtype=np.float32)
            self.record["space"] = {"recall": space_recall(vectors, own)}
        untaught = Encoder(self.work / "start", device=self.config.torch_device, batch_size=BATCH)
        start_speed = measure_speed(untaught, self._held_texts)
        self.record |= {
            "student": {
                "kind": self.kind,
                "start": {"megabytes": megabytes(untaught.model), "sentences_per_second": start_speed},
                "megabytes": megabytes(model),
                "dimension": vectors.shape[1],
            },
            "teachers": [self.vectors.about(number) for number in range(len(tables))],
            "dissent": dissent and {**asdict(dissent), "name": self.config.teacher[dissent.teacher]},
            "held_out": len(self.held_out),
            "agreement": {**agreement, "after": after.record()},
            "sentences_per_second": measure_speed(Encoder(model, batch_size=BATCH), self._held_texts),
            "stage": {key: value for key, value in trained.about.items() if key != "history"},
            "history": trained.about["history"],
        }
        if self.config.dev:
            self.record["dev"] = measure_gain(self.config.dev, untaught, Encoder(model))
        self._close(model)
        return self.record

    @contextmanager
    def _timed(self, name: str, what: str) -> Iterator[None]:
        """Log the start of a step and record its duration."""
        LOG.info("%s", what)
        began = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - began, 3)

    def _teacher(self, number: int) -> np.ndarray:
        return self.vectors.teacher(number, self.sentences, self._held_texts)

    def _start(self) -> SentenceTransformer:
        """Return the student before teaching; it is stored, so that a resumed run starts from the same."""
        folder = self.work / "start"
        if not is_whole(folder):
            self._write_start(self.work, self.sentences)
        check_manifest(folder)
        return SentenceTransformer(str(folder), device=self.config.torch_device)

    def _write_start(self, work: Path, sentences: Sentences) -> None:
        shutil.rmtree(work / "start", ignore_errors=True)
        set_seed(self.config.seed)
        model = self._make_start(sentences)
        with new_folder(work / "start") as new:
            model.save_pretrained(str(new), create_model_card=False)
            write_manifest(new)

    def _make_start(self, sentences: Sentences) -> SentenceTransformer:
        if self.kind == "static":
            number = static_teacher(self.config)
            opened = open_teacher(self.config.teacher[number], self.objects.get(number), self.config)
            return make_static(
                opened if isinstance(opened, Encoder) else Encoder(opened, batch_size=BATCH),
                self.taught,
                self._teacher(number),
                np.array(self.taught.rows["row"]),
                dim=self.config.dim,
                tokenizer=tokenizer_of(opened),
                progress=self.progress,
            )
        model = load_student(self.config)
        tokenizer: Any = model.tokenizer
        if hasattr(tokenizer, "unk_token_id") and (share := unknown_share(sentences, tokenizer)) > 0.5:
            raise InputError(
                f"the student's tokenizer does not know {share:.0%} of the tokens: choose a student that "
                "supports the language of the corpus"
            )
        return drop_layers(model, self.config.layers) if self.kind == "layers" else model

    def _held_vectors(self, model: SentenceTransformer) -> np.ndarray:
        return Encoder(model, batch_size=BATCH).encode(self._held_texts)

    @cached_property
    def _held_texts(self) -> list[str]:
        return list(self.sentences.rows[self.held_out]["text"])

    def _teach(
        self,
        start: SentenceTransformer,
        similarity: TeacherSimilarity,
        tables: Sequence[np.ndarray],
        origin: np.ndarray | None,
    ) -> StageResult:
        config = self.config
        vectors = {f"teacher{number}": table for number, table in enumerate(tables)}
        if origin is not None and config.vector_weight > 0:
            vectors["origin"] = origin
        set_seed(config.seed)
        loss = DistillationLoss(
            start,
            similarity.to(start.device),
            vector_weight=config.vector_weight if "origin" in vectors else 0.0,
            dropout=config.dropout,
        )
        return train_stage(
            loss,
            self.taught.rows,
            TextCollator(start, config.max_length, vectors),
            training_arguments(config, self.work / "checkpoints"),
            logs=self.folder / "logs",
            name="teaching",
            title="Teaching" if self.progress else "",
            evaluator=make_evaluator(config.dev),
            patience=config.patience,
        )

    def _map_into_space(self, model: SentenceTransformer, table: np.ndarray) -> None:
        rows = spread_rows(np.array(self.taught.rows["row"]), _MAPPED)
        texts = list(self.sentences.rows[rows]["text"])
        own = Encoder(model, batch_size=BATCH).encode(texts)
        if len(own) < own.shape[1]:
            warnings.warn(
                f"{len(own)} sentences are too few to fit a map of {own.shape[1]} dimensions into the "
                "teacher's space: add more text",
                TrainingWarning,
                stacklevel=2,
            )
        map_into_space(model, fit_map(own, np.asarray(table[rows], dtype=np.float32)))

    def _close(self, model: SentenceTransformer) -> None:
        """Write encoder, card and record; delete checkpoints and vectors."""
        self.record.update(finished=True, seconds=self.seconds)
        for name in ("encoder", "start"):  # left by a run killed at its very end
            shutil.rmtree(self.folder / name, ignore_errors=True)
        with new_folder(self.folder / "encoder") as new:
            model.save_pretrained(str(new), create_model_card=False)
            write_card(new, self.record)
        if self.config.keep_start:
            (self.work / "start").replace(self.folder / "start")
        write_record(self.folder, self.record)
        shutil.rmtree(self.work)
