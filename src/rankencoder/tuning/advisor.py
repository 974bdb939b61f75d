"""Advice: whether to keep cosine, distill, fuse, or label some pairs."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rankencoder.errors import InputError, ReferenceWarning
from rankencoder.io.corpus import read_sentences
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.sampling import sample_sentences
from rankencoder.model import RankEncoder, open_model
from rankencoder.reference import SEED
from rankencoder.tuning.tuner import Dev, Tuned, tune

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.opening import Opening
    from rankencoder.encoders import Encoder, EncoderLike

SIZE = 1_000  # sentences to sample
ENOUGH = 10_000  # sentences to distill on
LABELS = 120
_TIMED = 256  # sentences

Step = Literal["tune", "threshold", "distill", "label"]


@dataclass(frozen=True)
class Advice:
    """A recommendation for an encoder on a corpus.

    :param tuned: The similarity chosen on labeled pairs or, without any, the scores on sentence halves.
    :param sentences: Distinct sentences of the corpus.
    :param speed: Sentences encoded per second, on this machine.
    :param is_static: Whether the encoder looks up tokens instead of running a transformer.
    """

    tuned: Tuned
    sentences: int
    speed: float
    is_static: bool

    @property
    def step(self) -> Step:
        """The next step."""
        choice = self.tuned.choice
        if choice is None:
            return "label"
        if not choice.chosen.is_cosine:
            return "tune"
        if "yes/no" in choice.kind:
            return "threshold"
        return "label" if self.is_static or self.sentences < ENOUGH else "distill"

    @property
    def lines(self) -> dict[str, str]:
        """Advice on similarity, distillation, fusion and labels."""
        return {
            "similarity": str(self.tuned),
            "distill": self._distill(),
            "fuse": "Only with an encoder that is about as good: both then encode every sentence.",
            "label": self._label(),
        }

    def _distill(self) -> str:
        if self.sentences < ENOUGH:
            return f"Not yet: {self.sentences:,} sentences are few; collect {ENOUGH:,} or more."
        if self.is_static:
            return "It is already static and fast. A larger encoder as teacher makes it better."
        hours = self.sentences / self.speed / 3600
        taken = f"{60 * hours:.0f} minutes" if hours < 1 else f"{hours:.1f} hours"
        return (
            f"For speed: {self.sentences:,} sentences take {taken} here ({self.speed:,.0f} per second); a "
            "static student is about 100 times as fast. For quality: give it several teachers."
        )

    def _label(self) -> str:
        choice = self.tuned.choice
        if choice is None:
            return f"Yes: {LABELS} yes/no answers, ten minutes, choose the similarity and set a threshold."
        if "yes/no" in choice.kind:
            return f"Done: {sum(choice.pairs.values()):,} yes/no labels can set a threshold."
        return f"For a threshold: {LABELS} yes/no answers. Graded scores have none."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        about = {"sentences": self.sentences, "sentences_per_second": self.speed, "is_static": self.is_static}
        return {**self.lines, "step": self.step, **about, "tuned": self.tuned.to_dict()}


def advise(
    model: RankEncoder | Encoder | EncoderLike,
    corpus: Any,
    dev: Dev = (),
    *,
    column: str | ReadOptions | None = None,
    progress: bool | None = None,
    **opening: Unpack[Opening],
) -> Advice:
    """Recommend what to do with an encoder on a corpus: keep cosine, distill, fuse, or label some pairs.

    :param model: Anything that `open_model` opens.
    :param corpus: Sentences, as `RankEncoder` takes them.
    :param dev: Labeled or scored pairs (see `tune`).
    :param column: The column that holds the sentences, or all `ReadOptions`.
    :param opening: How to run a model that is loaded by name, as for `open_model`.
    """
    sample = sample_sentences(read_sentences(corpus, column=column), SIZE, SEED)
    if len(sample.sentences) < 2:
        raise InputError(f"the corpus has {len(sample.sentences)} usable sentences: advice needs at least 2")
    opened = open_model(model, **opening)
    given = None if isinstance(opened, RankEncoder) else sample
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReferenceWarning)  # a small sample is enough for advice
        tuned = tune(opened, dev, corpus=given, size=SIZE, progress=progress)
    encoder = tuned.model.encoder
    timed = sample.sentences[:_TIMED]
    began = time.perf_counter()
    encoder(timed)
    speed = len(timed) / max(time.perf_counter() - began, 1e-9)
    first = None if encoder.model is None else type(encoder.model[0]).__name__
    dropped = sum(sample.counts[key] for key in ("empty", "overlong", "duplicates"))
    return Advice(tuned, sample.counts["seen"] - dropped, speed, first == "StaticEmbedding")
