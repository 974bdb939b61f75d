"""Settings of a training, declared once, and the presets that choose among them.

The command line, settings files, their validation and the documentation's table are made from `TrainConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from rankencoder.training.run_settings import (
    DATA,
    METHOD,
    RUNNING,
    STAGE_2,
    TRAINING,
    Correlation,
    Count,
    Existing,
    GivenSettings,
    Power,
    RunSettings,
    ScoredPairs,
    setting,
    show_defaults,
)
from rankencoder.training.settings_file import read_values, validate

if TYPE_CHECKING:
    from rankencoder.training.methods.method import Method, Traits


PAPER = {"lower": 0.5, "upper": 0.8, "reference_size": 100_000}
PRESETS: dict[str, dict[str, Any]] = {  # what a preset chooses; for "best" see results/README.md
    "paper": PAPER,
    "authors-code": {**PAPER, "student": "head", "reference_size": 10_000},
    "best": {
        "method": "consert",
        "teachers": ["consert", "promptbert"],
        "target": "cosine",
        "combine": "sum",
        "rank_loss_weight": 10.0,
        "diagonal": "never",
        "listwise": "listnet",
    },
}

# in half precision 0.9999 is 1, so that their code for SimCSE pairs each sentence with itself; with SNCSE two
# templates keep the target of such a pair below 0.9999
_SUMMED = {"upper": 0.9999, "combine": "sum", "diagonal": "always"}
PRESETS_BY_METHOD: dict[str, dict[str, dict[str, Any]]] = {  # in place of the settings of its authors
    "paper": {},
    "authors-code": {
        "simcse": _SUMMED,
        "simcse-mlm": _SUMMED,
        "sncse": {**_SUMMED, "batch_size": 128},
    },
    "best": {
        "promptbert": {"batch_size": 64, "learning_rate": 3e-5, "eval_steps": 100},
        "consert": {"learning_rate": 2e-5, "epochs": 1.0, "eval_steps": 100},
    },
}


class TrainConfig(RunSettings):
    """The settings of a training, each with its type, default, bounds and help."""

    stage2_dev: list[ScoredPairs] = setting(
        [], "Scored pairs that choose E2's weights; empty for those of dev. Repeatable.", DATA
    )

    preset: Literal["best", "paper", "authors-code"] = setting(
        "best",
        "Recipe: best, paper or authors-code. With a method of your choice: paper.",
        METHOD,
        common=True,
    )
    backbone: Existing = setting(
        "bert-base-uncased", "Pretrained language model: folder or hub name.", METHOD, common=True
    )
    revision: str = setting("main", "Branch, tag or commit of a hub name.", METHOD)
    method: str = setting("simcse", "Training method, by name or as module:Class.", METHOD, common=True)
    options: dict[str, Any] = setting({}, "Options of the method.", METHOD)
    base_encoder: list[Existing] = setting(
        [], "Trained encoder to learn from, in place of stage 1. Repeatable.", METHOD, common=True
    )
    teachers: list[str] = setting(
        [], "Methods whose E1 teach E2, each trained first; empty for the method's own E1.", METHOD
    )
    only_base: bool = setting(False, "Stop after stage 1.", METHOD, common=True)

    max_seq_length: Count = setting(128, "Maximum tokens per sentence of the saved encoder.", TRAINING, ge=3)

    rank_loss_weight: float = setting(0.05, "Weight of the rank loss, λ_train of Eq. 6.", STAGE_2, ge=0)
    lower: Correlation = setting(-1.0, "τ_l: least similarity of a pair that stage 2 learns.", STAGE_2)
    upper: Correlation = setting(1.0, "τ_u: largest similarity of such a pair.", STAGE_2)
    combine: Literal["max", "sum"] = setting("max", "max or sum of contrastive and rank loss.", STAGE_2)
    diagonal: Literal["auto", "always", "never"] = setting(
        "auto", "Pair a sentence with itself: auto (by the bounds), always or never.", STAGE_2
    )
    student: Literal["encoder", "head"] = setting(
        "encoder", "Train the cosines of the encoder or of the training head.", STAGE_2
    )
    target: Literal["ranks", "cosine"] | Power = setting(
        "ranks", "Similarity that E2 learns: ranks, cosine, or a power of the covariance (-0.25).", STAGE_2
    )
    listwise: Literal["none", "listnet"] = setting(
        "none", "Also learn the order of each sentence's similarities: listnet.", STAGE_2
    )
    reference_size: Count = setting(10_000, "Sentences of the reference corpus.", STAGE_2, ge=2)
    rank_weight: float = setting(0.1, "λ of Eq. 7, of the RankEncoder written.", STAGE_2, ge=0, le=1)
    form: Literal["exact", "compact", "linear"] = setting(
        "compact", "Form of the RankEncoder written: exact, compact or linear.", STAGE_2
    )
    normalize_reference: bool = setting(
        True,
        "Rank references by cosine; no for inner products with raw vectors, as the authors do.",
        STAGE_2,
    )

    cuda_graphs: bool = setting(True, "Replay steps as CUDA graphs, on a GPU.", RUNNING)
    compile: bool = setting(False, "Compile the layers of those steps, for long runs.", RUNNING)

    def inputs(self) -> list[tuple[str, str]]:
        """Return what is read, by the names of settings."""
        read = [*super().inputs(), ("backbone", self.backbone)]
        read += [("stage2_dev", file) for file in self.stage2_dev]
        read += [("base_encoder", name) for name in self.base_encoder]
        texts = ((name, value) for name, value in self.options.items() if isinstance(value, str))
        return read + [(f"option {name}", value) for name, value in texts]

    @model_validator(mode="after")
    def _check(self) -> TrainConfig:
        if self.lower > self.upper:
            raise ValueError(f"no pair is between lower {self.lower} and upper {self.upper}")
        if self.only_base and self.base_encoder:
            raise ValueError("only_base trains E1 and base_encoder gives one: choose one of them")
        if self.teachers and (self.only_base or self.base_encoder):
            other = "only_base trains no E2" if self.only_base else "base_encoder gives trained ones"
            raise ValueError(f"teachers are trained for E2, and {other}: choose one of them")
        if not self.normalize_reference and self.form != "exact":
            raise ValueError(f"raw reference vectors (normalize_reference) need form exact, not {self.form}")
        if len(set(self.teachers)) < len(self.teachers):
            raise ValueError(f"a method can teach once: {', '.join(self.teachers)} names one twice")
        return self


@dataclass(frozen=True)
class Given(GivenSettings):
    """The settings of a training that somebody gave, valid, and without those that were left out."""

    @property
    def preset(self) -> str:
        """The preset: "best" by default; a method without a preset means its own recipe, the paper's."""
        return str(self.values.get("preset", "paper" if "method" in self.values else "best"))

    @property
    def method(self) -> str:
        """The method of E2, and of its own E1."""
        return self.draft.method

    @property
    def draft(self) -> TrainConfig:
        """The settings before those of the method: right in all that depends on no backbone."""
        return self._merged({}, {})

    def resolve(
        self, traits: Traits, method_class: type[Method], *, method: str | None = None
    ) -> TrainConfig:
        """Return all settings: what was given, else the preset's choice, the method's, or the default.

        :param method: Return the settings of this teacher's E1: the student's options are not for it.
        """
        from rankencoder.training.methods.method import make_method

        known = {k: v for k, v in method_class.defaults(traits).items() if k in TrainConfig.model_fields}
        options = self.values.get("options", {}) if method in (None, self.method) else {}
        made = make_method(method or self.method, options, method_class.defaults(traits))
        own: dict[str, Any] = {"options": made.options()}
        if method is not None:
            own |= {"method": method, "teachers": [], "base_encoder": [], "only_base": True}
        return self._merged({**known, **PRESETS_BY_METHOD[self.preset].get(method_class.name, {})}, own)

    def _merged(self, by_method: Mapping[str, Any], own: Mapping[str, Any]) -> TrainConfig:
        one = self.values.get("only_base") or self.values.get("base_encoder")
        merged = {**PRESETS[self.preset], **({"teachers": []} if one else {}), **by_method, **self.values}
        return validate({**merged, "preset": self.preset, **own}, TrainConfig)


def read_given(values: Mapping[str, Any], file: str | Path | None = None) -> Given:
    """Return the settings of a file and those given, which go before; None stands for "not given"."""
    found = read_values(TrainConfig, values, file)
    if found.get("options"):
        from rankencoder.training.methods.method import absolute_options

        found["options"] = absolute_options(Given(found).method, found["options"])
    return Given(found)


def default_text(name: str) -> str:
    """Return the default of a setting, and the presets' choices, as the help and the documentation show them.

    >>> default_text("target"), default_text("lower")
    ('ranks; best: cosine', '-1; paper: 0.5; authors-code: 0.5')
    """
    field = TrainConfig.model_fields[name]
    default = field.default
    about: Any = field.json_schema_extra
    others = {key: chosen[name] for key, chosen in PRESETS.items() if chosen.get(name, default) != default}
    return "; ".join([*show_defaults(default, others), *["or the method's"] * about["by_method"]])
