"""The public function `distill`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.distillation.distill_config import read_distillation
from rankencoder.distillation.distill_summary import is_nearer
from rankencoder.errors import InputError
from rankencoder.training.run import need_libraries
from rankencoder.training.run_settings import is_in_memory

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from rankencoder.encoders import EncoderLike


@dataclass(frozen=True)
class Distillation:
    """The output folder of a distillation, and its record: settings, teachers, agreement, timings."""

    folder: Path
    record: dict[str, Any]

    @property
    def encoder(self) -> Path:
        """The student, an ordinary SentenceTransformer."""
        return self.folder / "encoder"

    @property
    def is_nearer(self) -> bool:
        """Whether the student ended nearer to its teachers than it began, on held-out text."""
        return is_nearer(self.record)

    def load(self) -> SentenceTransformer:
        """Return the student."""
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(self.encoder))


def distill(
    corpus: Any = None,
    output: str | Path | None = None,
    *,
    teacher: EncoderLike | Sequence[EncoderLike] | None = None,
    student: str | Path | None = None,
    config: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | None = None,
    confirm: Callable[[str], bool] | None = None,
    **settings: Any,
) -> Distillation:
    """Teach a student its teachers' similarities, on unlabeled text.

    :param corpus: A text, ``.jsonl``, ``.csv``, ``.tsv`` or ``.parquet`` file, a folder of them, a
        ``datasets`` dataset, or an iterable of strings.
    :param output: The output folder: ``encoder`` (the student), ``rankencoder-run.json`` (the record) and
        ``distill.yaml`` (the settings).
    :param teacher: One teacher or several: a SentenceTransformer, its folder or hub name (with a prompt:
        ``"intfloat/e5-small-v2?prompt=query: "``), a RankEncoder or its folder, a training run, a callable
        from a list of strings to an array, a file of vectors of the corpus, or ``"openai:MODEL"``.
    :param student: An encoder's folder or hub name, or "static".
    :param config: A YAML file of settings, such as the ``distill.yaml`` of an earlier run.
    :param resume: Resume an interrupted run in ``output``; the result is the same as without interruption.
    :param overwrite: Replace an earlier run in ``output``.
    :param progress: Show progress; by default on a terminal.
    :param confirm: Called with the cost estimate of an API before any sentence is sent; sending is refused
        if it returns False.
    :param settings: Any of `DistillConfig`: ``layers``, ``dim``, ``target``, ``epochs``, ``dev``, ``seed``, …
    :raises InputError: If a setting, the corpus, the student or a teacher is unusable.

    >>> run = distill(corpus, folder / "student", teacher=encoder, student="static", dim=16, batch_size=64)
    >>> run.load().encode(["A cat sleeps."]).shape
    (1, 16)
    """
    need_libraries("distilling", "accelerate", "datasets")
    from rankencoder.distillation.teacher_sources import names_of

    if resume and config is not None:
        raise InputError("a resumed run keeps its own settings: leave out `config`")
    objects = [] if teacher is None else list(teacher) if isinstance(teacher, (list, tuple)) else [teacher]
    names = {"corpus": "" if is_in_memory(corpus) else corpus, "output": output, "student": student}
    given = read_distillation({**settings, **names, "teacher": names_of(objects) or None}, config)
    folder = given.folder
    from rankencoder.distillation.distillation_run import DistillationRun
    from rankencoder.training.run_folder import locked, resumed_settings

    with locked(folder):
        if resume:
            given = resumed_settings(folder, given, read_distillation)
        progress = sys.stderr.isatty() if progress is None else progress
        run = DistillationRun(given, folder, dict(enumerate(objects)), progress)
        run.check()
        if not resume:
            run.begin(corpus, overwrite=overwrite)
        run.confirm_costs(confirm)
        return Distillation(folder, run.finish())
