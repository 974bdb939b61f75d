"""`train`: from unlabelled text to E1, E2 and a RankEncoder."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError
from rankencoder.storage import new_file, read_json, write_json
from rankencoder.training.config import TrainConfig, make_config
from rankencoder.training.folder import claim_folder

if TYPE_CHECKING:
    from datasets import Dataset

    from rankencoder.model import RankEncoder
    from rankencoder.reference import Reference
    from rankencoder.training.data import Sentences
    from rankencoder.training.methods.base import Method


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
    """Train a sentence encoder on unlabelled text, as the paper does.

    Stage 1 trains E1 by a base method. The reference corpus is drawn and encoded by E1. Stage 2 trains E2,
    from a fresh backbone, on E1's rank similarities. E2 is an ordinary SentenceTransformer.

    :param corpus: A text, ``.jsonl``, ``.csv``, ``.tsv`` or ``.parquet`` file, a folder of them, a
        ``datasets`` dataset, or an iterable of strings.
    :param output: The folder to write: ``encoder`` (E2), ``base`` (E1), ``rankencoder`` (E2 with its
        reference corpus, Eq. 7), ``losses.svg``, ``rankencoder-run.json`` and ``train.yaml``.
    :param config: A YAML or TOML file of settings, such as the ``train.yaml`` of an earlier run.
    :param resume: Go on with an interrupted run in ``output``; it ends as if it had never been interrupted.
    :param overwrite: Replace an earlier run in ``output``.
    :param progress: Show progress; by default on a terminal.
    :param settings: Any of `TrainConfig`: ``backbone``, ``method``, ``seed``, ``batch_size``, ``dev``, …
    :raises InputError: If a setting, the corpus or the backbone is not usable.

    >>> run = train(corpus, folder / "run", backbone=backbone, batch_size=8, max_steps=2, reference_size=1000)
    >>> sorted(path.name for path in run.folder.iterdir())
    ['base', 'encoder', 'losses.svg', 'rankencoder', 'rankencoder-run.json', 'train.yaml']
    >>> from sentence_transformers import SentenceTransformer
    >>> SentenceTransformer(str(run.encoder)).encode(["A cat sleeps."]).shape
    (1, 32)
    """
    _need_libraries()
    source = str(Path(corpus).resolve()) if isinstance(corpus, (str, Path)) else None
    given = {name: value for name, value in (("corpus", source), ("output", output)) if value is not None}
    given = {**settings, **{name: str(value) for name, value in given.items()}}
    watched = sys.stderr.isatty() if progress is None else progress
    chosen = make_config(given, config)
    if chosen.output is None:
        raise InputError("where shall the result go? Give an output folder")
    with claim_folder(Path(chosen.output), chosen, set(given), resume=resume, overwrite=overwrite) as claim:
        if corpus is None and claim.config.corpus is None and not (claim.work / "sentences.json").exists():
            raise InputError("there is no corpus to train on: give a file or folder of sentences")
        run = _Run(claim.config, claim.folder, claim.work, watched)
        run.prepare(claim.config.corpus if source or corpus is None else corpus, claim.accept)
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

    def __init__(self, config: TrainConfig, folder: Path, work: Path, progress: bool) -> None:
        from accelerate import PartialState

        from rankencoder.training.backbone import load_backbone
        from rankencoder.training.methods import find_method, make_method
        from rankencoder.training.stage import make_evaluator

        self.folder, self.work = folder, work
        # the first process may prepare data for long while the others wait
        self.processes = PartialState(cpu=config.device == "cpu", timeout=timedelta(days=1))
        self.progress = progress and self.processes.is_main_process
        cls = find_method(config.method)
        backbone = load_backbone(
            config.backbone, revision=config.revision, max_seq_length=config.max_seq_length
        )
        if backbone.kind not in cls.kinds:
            raise InputError(
                f"method {config.method!r} trains {' and '.join(cls.kinds)} language models, and "
                f"{config.backbone!r} is a {backbone.kind} one: use another backbone, or method 'simcse'"
            )
        if backbone.positions is not None and config.max_length > backbone.positions:
            raise InputError(
                f"max_length {config.max_length} is more than the backbone's {backbone.positions}"
            )
        self.method: Method = make_method(config.method, config.options, cls.defaults(backbone))
        self.config = config.resolved(backbone, cls)
        self.config.options = self.method.options()
        self.method.encoder(backbone)  # says what does not fit, such as a tokenizer without [MASK]
        self.tokenizer = backbone.tokenizer
        make_evaluator(config.dev)  # says what is wrong with the files
        self.timings: dict[str, float] = {}

    def prepare(self, corpus: Any, accept: Any) -> None:
        """Store the sentences, the settings and a first record."""
        from rankencoder.training.data import check_language, load_sentences, store_sentences
        from rankencoder.training.outputs import new_record, write_record
        from rankencoder.training.stage import check_batches

        with self._first("read"):
            if self.processes.is_main_process:
                self.work.mkdir(parents=True, exist_ok=True)
                stored = store_sentences(corpus, self.work, column=self.config.column, progress=self.progress)
                check_batches(self.config, len(stored))
                check_language(stored, self.tokenizer)
                accept(self.config)
        self.sentences: Sentences = load_sentences(self.work)
        self.record = new_record(self.config)
        self.record["corpus"] = {
            "path": self.config.corpus,
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
        base = self._base(rows)
        if not self.config.only_base:
            self._rank_stage(rows, base)
        self._close()
        return TrainingRun(self.folder, self.record)

    def _base(self, rows: Dataset) -> str:
        """Return E1's folder or name, trained if it is not given."""
        if self.config.base_encoder is not None:
            return self.config.base_encoder
        if not (self.folder / "base").exists():
            self._stage(1, rows, "base", None)
        return str(self.folder / "base")

    def _stage(self, number: int, rows: Dataset, name: str, targets: Any) -> None:
        from rankencoder.training.outputs import save_encoder
        from rankencoder.training.stage import train_stage

        trained = train_stage(
            self.config,
            self.method,
            rows,
            self.work / f"stage-{number}",
            number=number,
            targets=targets,
            progress=self.progress,
        )
        if self.processes.is_main_process:
            with new_file(self.work / f"stage-{number}.json") as path:
                write_json(path, trained.about)
            save_encoder(trained, self.folder / name, self.config, self.sentences)
        self.processes.wait_for_everyone()

    def _rank_stage(self, rows: Dataset, base: str) -> None:
        """Train E2 and write it with a reference corpus of its own."""
        from rankencoder.encoders import Encoder
        from rankencoder.model import RankEncoder
        from rankencoder.reference import Reference
        from rankencoder.training.stage import Targets
        from rankencoder.training.teacher import teacher_vectors

        on: dict[str, Any] = {"device": self.config.device, "batch_size": 128}
        if not (self.folder / "encoder").exists():
            with self._first("targets"):
                encoder = Encoder(base, **on)
                reference = self._reference(encoder)
                file = self.work / "teacher.npy"
                teacher = teacher_vectors(encoder, self.sentences, file, progress=self.progress)
                del encoder
            self._stage(2, rows, "encoder", Targets(teacher, reference.vectors))
        with self._first("rankencoder"):
            if self.processes.is_main_process and not (self.folder / "rankencoder").exists():
                drawn = Reference.load(self.work / "reference").sentences
                student = Encoder(self.folder / "encoder", **on)
                own = Reference.build(
                    student,
                    drawn,
                    size=len(drawn),
                    seed=self.config.reference_seed,
                    progress=self.progress,
                    resume_beside=self.work / "own-reference",
                )
                model = RankEncoder(
                    student, own, form=self.config.form, rank_weight=self.config.rank_weight, progress=False
                )
                model.save(self.folder / "rankencoder")

    def _reference(self, encoder: Any) -> Reference:
        """Return the reference corpus as E1 sees it."""
        from rankencoder.reference import Reference

        folder = self.work / "reference"
        if not folder.exists():
            texts = (row["text"] for row in self.sentences.rows)
            Reference.build(
                encoder,
                texts,
                size=int(self.config.reference_size or 0),
                seed=self.config.reference_seed,
                progress=self.progress,
                resume_beside=folder,
            ).save(folder)
        reference = Reference.load(folder)
        reference.check_encoder(encoder)
        return reference

    def _close(self) -> None:
        """Write record and picture, and delete checkpoints and vectors."""
        from rankencoder.training.outputs import PICTURE, write_record
        from rankencoder.training.picture import draw_losses

        stages = [read_json(path) for path in sorted(self.work.glob("stage-?.json"))]
        history = [entry for stage in stages for entry in stage.pop("history")]
        self.record.update(
            finished=True,
            stages=stages,
            seconds={name: round(seconds, 3) for name, seconds in self.timings.items()},
            history=history,
        )
        if self.processes.is_main_process:
            write_record(self.folder, self.record)
            if any("contrastive" in entry for entry in history):
                title = f"{self.config.method} on {Path(self.config.backbone).name}"
                draw_losses(history, self.folder / PICTURE, title=title)
            shutil.rmtree(self.work)
        self.processes.wait_for_everyone()
