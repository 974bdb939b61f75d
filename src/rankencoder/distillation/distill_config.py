"""Settings of a distillation, and the recipe for each kind of student."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from rankencoder.training.run_settings import (
    RUNNING,
    TEACHING,
    TRAINING,
    Count,
    Existing,
    GivenSettings,
    RunSettings,
    setting,
    show_defaults,
)
from rankencoder.training.settings_file import read_values, validate

STATIC = "static"
Kind = Literal["encoder", "static encoder", "backbone", "layers", "static"]
IN_PLACE: tuple[Kind, ...] = ("encoder", "static encoder")  # students that are in use already


def _student(name: str) -> str:
    from rankencoder.encoder_sources import absolute_name

    return name if name == STATIC else str(absolute_name(name))  # even next to a folder named "static"


Student = Annotated[str, AfterValidator(_student)]
Weight = Annotated[float, Field(gt=0, strict=False)]  # accepts "0.5" from a command line


class DistillConfig(RunSettings):
    """The settings of a distillation, each with its type, default, bounds and help."""

    file: ClassVar[str] = "distill.yaml"

    teacher: list[Existing] = setting(
        [],
        "Encoder to learn from: folder, hub name (NAME?prompt=TEXT), file of vectors or openai:MODEL. "
        "Repeatable.",
        TEACHING,
        common=True,
    )
    weight: list[Weight] = setting([], "Weight of each teacher; equal by default.", TEACHING)
    student: Student = setting(
        "", "Encoder to teach: folder or hub name, or 'static' for a static one.", TEACHING, common=True
    )
    layers: Count = setting(
        0, "Number of the student's layers to keep; 0 for all.", TEACHING, common=True, ge=0
    )
    dim: Count = setting(256, "Dimensions of a static student.", TEACHING, common=True, ge=1)
    target: Literal["standardized", "ranks", "cosine"] = setting(
        "standardized",
        "What the student learns: the mean of the teachers' standardized cosines, of their standardized rank "
        "similarities (ranks), or of their plain cosines (cosine).",
        TEACHING,
        common=True,
    )
    space: Literal["own", "teacher"] = setting(
        "own", "'teacher' maps the student into the first teacher's vector space.", TEACHING, common=True
    )
    vector_weight: float = setting(
        0.0, "Weight of the loss on the whole encoder's vectors, when layers are dropped.", TEACHING, ge=0
    )
    api_base: str = setting(
        "", "Address of an OpenAI-compatible API, for openai:MODEL.", TEACHING, common=True
    )
    api_price: float = setting(
        0.0, "Dollars per million tokens, for the cost estimate.", TEACHING, common=True, ge=0
    )

    batch_size: Count = setting(256, "Sentences per step.", TRAINING, common=True, ge=2)
    learning_rate: float = setting(
        1e-4, "Peak learning rate; decays linearly to 0.", TRAINING, common=True, gt=0
    )
    epochs: float = setting(1.0, "Passes over the sentences.", TRAINING, common=True, gt=0)
    warmup_steps: float = setting(0.1, "Warm-up steps; below 1, a share of all steps.", TRAINING, ge=0)
    max_length: Count = setting(64, "Maximum tokens per sentence in training.", TRAINING, ge=3)
    precision: Literal["fp32", "fp16", "bf16"] = setting(
        "bf16", "bf16, fp16 or fp32; always fp32 on a CPU.", TRAINING
    )
    dropout: bool = setting(False, "Keep the student's dropout on.", TRAINING)
    eval_steps: Count = setting(125, "Steps between evaluations on the scored pairs.", RUNNING, ge=1)
    patience: Count = setting(
        0, "Evaluations without a gain before training stops; 0 for no early stopping.", RUNNING, ge=0
    )
    keep_start: bool = setting(False, "Also save the untrained student, in OUTPUT/start.", RUNNING)
    strict: bool = setting(
        False, "Exit with an error if the student ends no nearer to its teachers.", RUNNING, common=True
    )

    @model_validator(mode="after")
    def _check(self) -> DistillConfig:
        if self.weight and len(self.weight) != len(self.teacher):
            given, wanted = len(self.weight), len(self.teacher)
            raise ValueError(f"`weight` has {given} values, and `teacher` {wanted}: pass one weight each")
        if self.layers and self.student == STATIC:
            raise ValueError("a static student has no layers: leave `layers` out")
        if "dim" in self.model_fields_set and self.student not in ("", STATIC):
            raise ValueError("only a static student has a choice of `dim`: leave it out")
        return self


_STATIC_RECIPE = {"learning_rate": 2e-3, "epochs": 8.0, "batch_size": 512}
RECIPES: dict[Kind, dict[str, Any]] = {  # replacements of the defaults
    "encoder": {},
    "static encoder": _STATIC_RECIPE,
    "backbone": {},
    "layers": {"vector_weight": 100.0},
    "static": _STATIC_RECIPE,
}


@dataclass(frozen=True)
class GivenDistillation(GivenSettings):
    """The explicit settings of a distillation."""

    @property
    def draft(self) -> DistillConfig:
        """The settings without the student's recipe."""
        return self.resolve("encoder")

    def resolve(self, kind: Kind) -> DistillConfig:
        """Return all settings: explicit ones, else those of the recipe, else the defaults."""
        return validate({**RECIPES[kind], **self.values}, DistillConfig)


def read_distillation(values: Mapping[str, Any], file: str | Path | None = None) -> GivenDistillation:
    """Merge explicit values, where None means "not given", over the settings of a file."""
    return GivenDistillation(read_values(DistillConfig, values, file))


def default_text(name: str) -> str:
    """Return the default of a setting, and its recipe values, as the help shows them.

    >>> default_text("learning_rate")
    '0.0001; static: 0.002'
    """
    default = DistillConfig.model_fields[name].default
    others = {kind.split()[0]: recipe[name] for kind, recipe in RECIPES.items() if name in recipe}
    return "; ".join(show_defaults(default, others))
