"""Runs a distillation: teachers' vectors, the student's start, teaching, and what came of it."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import set_seed

from rankencoder.distillation.agreement import (
    held_out_rows,
    measure_agreement,
    measure_speed,
    megabytes,
)
from rankencoder.distillation.committee import Committee, cosine_scale, spread_rows
from rankencoder.distillation.dev_gain import measure_gain
from rankencoder.distillation.distill_card import write_card
from rankencoder.distillation.distill_config import DistillConfig, GivenDistillation, Kind
from rankencoder.distillation.layer_student import drop_layers
from rankencoder.distillation.static_student import TakenRows, make_static
from rankencoder.distillation.student_sources import load_student
from rankencoder.distillation.teacher_sources import is_file, open_teacher, open_vectors, static_teacher
from rankencoder.distillation.teacher_space import fit_map, map_into_space, space_recall
from rankencoder.distillation.text_collator import TextCollator
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.storage import new_file, new_folder, read_json, write_json
from rankencoder.provenance import provenance
from rankencoder.training.checks import check_batches
from rankencoder.training.loop.stage import Trained, make_evaluator, train_stage, training_arguments
from rankencoder.training.run_folder import new_run
from rankencoder.training.run_outputs import write_record
from rankencoder.training.sentences import Sentences, load_sentences, store_sentences, unknown_share
from rankencoder.training.teaching.distillation_loss import DistillationLoss
from rankencoder.training.teaching.targets import TeacherSimilarity
from rankencoder.training.teaching.teachers import (
    BATCH,
    EncodedSentences,
    VectorSource,
    is_whole,
    load_vectors,
    write_vectors,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

LOG = logging.getLogger("rankencoder.distillation")
_HELD_OUT = 3  # sentences at least: fewer have no two pairs to correlate
_TIMED = 256  # sentences that a speed is measured on
_MAPPED = 50_000  # sentences that a map into a teacher's space is fitted on


class DistillationRun:
    """Runs the steps of a distillation in a folder. What is there already is not made again.

    :param objects: The teachers that are Python objects, at their places.
    """

    def __init__(
        self, config: DistillConfig, kind: Kind, folder: Path, objects: Sequence[Any], progress: bool
    ) -> None:
        self.config, self.kind, self.folder, self.work = config, kind, folder, folder / "work"
        self.objects, self.progress = objects, progress
        self.seconds: dict[str, float] = {}

    def begin(self, corpus: Any, given: GivenDistillation, *, overwrite: bool) -> None:
        """Store the sentences in a new folder, and the settings to resume with."""
        if corpus is None:
            raise InputError("no corpus to learn from: give a file or folder of sentences")
        with new_run(self.folder, given, self.config, overwrite=overwrite) as new:
            stored = store_sentences(
                corpus, new / "work", column=self.config.column or None, progress=self.progress
            )
            held_out = len(held_out_rows(len(stored), self.config.seed))
            if held_out < _HELD_OUT:
                raise InputError(f"{len(stored):,} sentences are too few to hold some out: give more text")
            check_batches(self.config, len(stored) - held_out)

    @cached_property
    def sentences(self) -> Sentences:
        """The stored sentences."""
        return load_sentences(self.work)

    @cached_property
    def held_out(self) -> np.ndarray:
        """The rows that are not taught."""
        return held_out_rows(len(self.sentences), self.config.seed)

    @cached_property
    def taught(self) -> Sentences:
        """The sentences that are taught."""
        rows = np.setdiff1d(np.arange(len(self.sentences)), self.held_out)
        return replace(self.sentences, rows=self.sentences.rows.select(rows))

    def finish(self) -> dict[str, Any]:
        """Run what is not done, write encoder, card and record, and return the record."""
        self.record: dict[str, Any] = {
            "format": 1,
            "finished": False,
            "kind": "distillation",
            "config": self.config.model_dump(),
            **provenance(),
            "corpus": {
                "path": self.config.corpus or None,
                "sha256": self.sentences.sha256,
                **self.sentences.counts,
            },
        }
        write_record(self.folder, self.record)
        if self.kind != "static":
            self._start()  # says what is wrong with it before the teachers work for hours
        with self._timed("teachers", f"Encoding {len(self.sentences):,} sentences by the teachers"):
            tables = [self._teacher(number) for number in range(len(self.config.teacher))]
        with self._timed("start", "Making the student's start"):
            start = self._start()
        committee = Committee(self.config.teacher, tables, np.array(self.taught.rows["row"]), self.config)
        origin = self._origin()
        held = self._held_vectors(start)
        similarity = committee.similarity(*self._scale(committee, held, origin))
        dissent = committee.warn_of_dissent(similarity)
        targets = committee.targets(similarity, self.held_out)
        before = measure_agreement(held, targets)
        with self._timed("teaching", "Teaching the student"):
            trained = self._teach(start, similarity, tables, origin)
        model = trained.model
        if self.config.space == "teacher":
            self._map_into_space(model, tables[0])
        vectors = self._held_vectors(model)
        after = measure_agreement(vectors, targets)
        self.record |= {
            "student": {"kind": self.kind, "start": self._about_start(), "megabytes": megabytes(model)},
            "teachers": [read_json(self._place(i) / "about.json") for i in range(len(tables))],
            "dissent": dissent and {**dissent.record(), "name": self.config.teacher[dissent.teacher]},
            "held_out": len(self.held_out),
            "agreement": {"before": before.record(), "after": after.record()},
            "sentences_per_second": self._speed(model),
            "stage": {key: value for key, value in trained.about.items() if key != "history"},
            "history": trained.about["history"],
        }
        if self.config.space == "teacher":
            own = np.asarray(tables[0][self.held_out], dtype=np.float32)
            self.record["space"] = {"recall": space_recall(vectors, own)}
        if self.config.dev:
            self.record["dev"] = measure_gain(
                self.config.dev, Encoder(self.work / "start", device=self.config.torch_device), Encoder(model)
            )
        self._close(model)
        return self.record

    @contextmanager
    def _timed(self, name: str, what: str) -> Iterator[None]:
        """Log what begins, and record how long it takes."""
        LOG.info("%s", what)
        began = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - began, 3)

    # -- teachers

    def _place(self, number: int) -> Path:
        return self.work / "teachers" / str(number)

    def _teacher(self, number: int) -> np.ndarray:
        """Return a teacher's vectors of all sentences, made if they are not there yet."""
        name, folder = self.config.teacher[number], self._place(number)
        title = f"Teacher {number + 1} of {len(self.config.teacher)}"
        if not is_whole(folder / "vectors") or not self._is_known(number):
            about: dict[str, Any] = {"name": name}
            source: VectorSource
            if is_file(name):
                source = open_vectors(name, self.sentences)
            else:
                opened = open_teacher(name, self.objects[number], self.config)
                source = EncodedSentences(opened, self.sentences)
                own = getattr(opened, "encoder", opened)
                if isinstance(own, Encoder) and own.model is not None:
                    about["megabytes"] = megabytes(own.model)
                    about["sentences_per_second"] = self._speed_of(own)
            about |= {"dimension": source.dimension, "fingerprint": source.fingerprint()}
            with new_file(folder / "about.json") as path:
                write_json(path, about)
            write_vectors(source, self.sentences, folder / "vectors", progress=self.progress, title=title)
        return load_vectors(folder / "vectors")

    def _is_known(self, number: int) -> bool:
        """Return whether what is to be said of a teacher was written down."""
        try:
            return "fingerprint" in read_json(self._place(number) / "about.json")
        except InputError:
            return False

    def _origin(self) -> np.ndarray | None:
        """Return the vectors of the whole encoder whose layers are kept, to be learnt as well."""
        if self.kind != "layers":
            return None
        whole = EncodedSentences(Encoder(load_student(self.config), batch_size=BATCH), self.sentences)
        own = whole.fingerprint()
        for number in range(len(self.config.teacher)):
            if read_json(self._place(number) / "about.json")["fingerprint"] == own:
                return load_vectors(self._place(number) / "vectors")
        folder = self.work / "origin"
        if not is_whole(folder):
            write_vectors(whole, self.sentences, folder, progress=self.progress, title="Whole student")
        return load_vectors(folder)

    # -- the student

    def _start(self) -> SentenceTransformer:
        """Return the student as it is before it is taught; it is kept, so that a resumed run has the same."""
        from sentence_transformers import SentenceTransformer

        folder = self.work / "start"
        if not is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
            set_seed(self.config.seed)
            model = self._make_start()
            with new_folder(folder) as new:
                model.save_pretrained(str(new), create_model_card=False)
                write_manifest(new)
        check_manifest(folder)
        return SentenceTransformer(str(folder), device=self.config.torch_device)

    def _make_start(self) -> SentenceTransformer:
        if self.kind == "static":
            number = static_teacher(self.config)
            opened = open_teacher(self.config.teacher[number], self.objects[number], self.config)
            opened = opened if isinstance(opened, Encoder) else Encoder(opened, batch_size=BATCH)
            known = TakenRows(self._teacher(number), np.array(self.taught.rows["row"]))
            return make_static(opened, self.taught, known, dim=self.config.dim, progress=self.progress)
        model = load_student(self.config)
        tokenizer: Any = model.tokenizer
        if hasattr(tokenizer, "unk_token_id") and (share := unknown_share(self.sentences, tokenizer)) > 0.5:
            raise InputError(
                f"the student's tokenizer does not know {share:.0%} of the tokens: choose a student for the "
                "language of the corpus"
            )
        return drop_layers(model, self.config.layers) if self.kind == "layers" else model

    def _scale(
        self, committee: Committee, held: np.ndarray, origin: np.ndarray | None
    ) -> tuple[float, float]:
        """Return mean and deviation of the cosines that are to keep their meaning.

        Of a student that people use already, its own; of one without layers, those of the whole encoder. What
        has no cosines that anybody knows takes over the first teacher's.

        :param held: The start's vectors of the held-out sentences.
        """
        if self.kind == "encoder":
            return cosine_scale(held)
        if origin is not None:
            return cosine_scale(np.asarray(origin[spread_rows(committee.rows, 2000)], dtype=np.float32))
        return committee.scale(0)

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
    ) -> Trained:
        config = self.config
        vectors = {f"teacher{number}": table for number, table in enumerate(tables)}
        learns_vectors = origin is not None and config.vector_weight > 0
        if learns_vectors:
            assert origin is not None
            vectors["origin"] = origin
        set_seed(config.seed)
        loss = DistillationLoss(
            start,
            similarity.to(start.device),
            vector_weight=config.vector_weight if learns_vectors else 0.0,
            dropout=config.dropout,
        )
        return train_stage(
            loss,
            self.taught.rows,
            TextCollator(start, config.max_length, vectors),
            training_arguments(config, self.work / "checkpoints", config.seed),
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
        map_into_space(model, fit_map(own, np.asarray(table[rows], dtype=np.float32)))

    # -- figures

    def _speed_of(self, encoder: Encoder) -> float:
        return round(measure_speed(encoder, self._held_texts[:_TIMED]), 1)

    def _speed(self, model: SentenceTransformer) -> float:
        return self._speed_of(Encoder(model, batch_size=BATCH))

    def _about_start(self) -> dict[str, Any]:
        start = Encoder(self.work / "start", device=self.config.torch_device, batch_size=BATCH)
        return {"megabytes": megabytes(start.model), "sentences_per_second": self._speed_of(start)}

    def _close(self, model: SentenceTransformer) -> None:
        """Write encoder, card and record, and delete checkpoints and vectors."""
        self.record.update(finished=True, seconds=self.seconds)
        for name in ("encoder", "start"):  # of a run that was killed just before it was finished
            shutil.rmtree(self.folder / name, ignore_errors=True)
        with new_folder(self.folder / "encoder") as new:
            model.save_pretrained(str(new), create_model_card=False)
            write_card(new / "README.md", self.record)
        if self.config.keep_start:
            (self.work / "start").replace(self.folder / "start")
        write_record(self.folder, self.record)
        shutil.rmtree(self.work)
