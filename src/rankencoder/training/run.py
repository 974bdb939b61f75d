"""`train`: from unlabelled text to E1, E2 and a RankEncoder."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError
from rankencoder.storage import new_file, read_json, write_json
from rankencoder.training.checks import check_backbone, check_machine
from rankencoder.training.config import make_config
from rankencoder.training.folder import Claim, claim_folder, locked
from rankencoder.training.gather import WAIT, is_first_process

if TYPE_CHECKING:
    from datasets import Dataset

    from rankencoder.encoders import Encoder
    from rankencoder.model import RankEncoder
    from rankencoder.reference import Reference
    from rankencoder.training.data import Sentences
    from rankencoder.training.methods.base import Method

_BATCH = 128  # sentences, when encoding


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
    if resume and config is not None:
        raise InputError("a resumed run has its own settings: leave the config file out")
    source = str(corpus) if isinstance(corpus, (str, Path)) else None
    given = {
        name: str(value) for name, value in (("corpus", source), ("output", output)) if value is not None
    }
    chosen = make_config({**settings, **given}, config)
    if chosen.output is None:
        raise InputError("where shall the result go? Give an output folder")
    watched = sys.stderr.isatty() if progress is None else progress
    with locked(Path(chosen.output)) if is_first_process() else nullcontext():
        with claim_folder(chosen, {*settings, *given}, resume=resume, overwrite=overwrite) as claim:
            if source is not None or corpus is None:
                corpus = claim.config.corpus
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

        from rankencoder.training.backbone import load_backbone
        from rankencoder.training.methods import find_method, make_method
        from rankencoder.training.stage import on_gpu

        config = claim.config
        check_machine(config)
        self.claim, self.folder, self.work = claim, claim.folder, claim.work
        self.processes = PartialState(cpu=config.device == "cpu", timeout=WAIT)
        self.progress = progress and self.processes.is_main_process
        cls = find_method(config.method)
        backbone = load_backbone(
            config.backbone, revision=config.revision, max_seq_length=config.max_seq_length
        )
        check_backbone(config, cls, backbone)
        self.method: Method = make_method(config.method, config.options, cls.defaults(backbone))
        self.method.check()
        self.method.encoder(backbone)  # says what does not fit, such as a tokenizer without [MASK]
        self.config = config.resolved(backbone, cls)
        self.config.options = self.method.options()
        self.config.precision = self.config.precision if on_gpu(config) else "fp32"
        self.tokenizer = backbone.tokenizer
        self.added_dropout = backbone.dropout
        self.timings: dict[str, float] = {}

    def prepare(self, corpus: Any) -> None:
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
                self.claim.accept(self.config)
        self.sentences: Sentences = load_sentences(self.work)
        self.record = new_record(self.config)
        self.record["added_dropout"] = self.added_dropout
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
        if trained.stopped:
            raise KeyboardInterrupt

    def _rank_stage(self, rows: Dataset, base: str) -> None:
        """Train E2 and write it with a reference corpus of its own."""
        import numpy as np

        from rankencoder.reference import Reference
        from rankencoder.training.stage import Targets

        if not (self.folder / "encoder").exists():
            with self._first("targets"):
                if self.processes.is_main_process:
                    self._make_targets(base)
            teacher = np.load(self.work / "teacher.npy", mmap_mode="r")
            reference = Reference.load(self.work / "reference")
            self._stage(2, rows, "encoder", Targets(teacher, reference.vectors))
        with self._first("rankencoder"):
            if self.processes.is_main_process and not (self.folder / "rankencoder").exists():
                self._make_rankencoder()

    def _make_targets(self, base: str) -> None:
        """Draw the reference corpus; let E1 encode it, and all training sentences."""
        from rankencoder.reference import Reference
        from rankencoder.training.teacher import write_teacher_vectors

        encoder = self._encoder(base)
        folder = self.work / "reference"
        if not folder.exists():
            texts = (row["text"] for row in self.sentences.rows)
            self._sample(encoder, texts, int(self.config.reference_size or 0), folder).save(folder)
        Reference.load(folder).check_encoder(encoder)
        write_teacher_vectors(encoder, self.sentences, self.work / "teacher.npy", progress=self.progress)

    def _make_rankencoder(self) -> None:
        """Write E2 with the same reference corpus, as E2 sees it."""
        from rankencoder.model import RankEncoder
        from rankencoder.reference import Reference

        drawn = Reference.load(self.work / "reference").sentences
        encoder = self._encoder(str(self.folder / "encoder"))
        own = self._sample(encoder, drawn, len(drawn), self.work / "own-reference")
        model = RankEncoder(
            encoder, own, form=self.config.form, rank_weight=self.config.rank_weight, progress=False
        )
        model.save(self.folder / "rankencoder")

    def _encoder(self, name: str) -> Encoder:
        from rankencoder.encoders import Encoder

        return Encoder(name, device=self.config.device, batch_size=_BATCH)

    def _sample(self, encoder: Encoder, texts: Iterable[str], size: int, beside: Path) -> Reference:
        from rankencoder.reference import Reference

        return Reference.build(
            encoder,
            texts,
            size=size,
            seed=self.config.reference_seed,
            progress=self.progress,
            resume_beside=beside,
        )

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
            if any("contrastive" in entry for entry in history):
                title = f"{self.config.method} on {Path(self.config.backbone).name}"
                draw_losses(history, self.folder / PICTURE, title=title)
            write_record(self.folder, self.record)  # from now on the run is finished
            shutil.rmtree(self.work)
        self.processes.wait_for_everyone()
