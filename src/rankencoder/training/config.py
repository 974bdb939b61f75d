"""Settings of a training, declared once, and their presets.

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
    Automatic,
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
PRESETS: dict[str, dict[str, Any]] = {  # for "best" see results/README.md
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

# in half precision 0.9999 is 1, so the authors' SimCSE code pairs each sentence with itself; in their SNCSE
# code, targets across two templates stay below 0.9999
_SUMMED = {"upper": 0.9999, "combine": "sum", "diagonal": "always"}
PRESETS_BY_METHOD: dict[str, dict[str, dict[str, Any]]] = {  # in place of the method's settings
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
        [], "Scored pairs for choosing E2's weights; by default those of dev. Repeatable.", DATA
    )

    preset: Literal["best", "paper", "authors-code"] = setting(
        "best",
        "Recipe: best, paper or authors-code; paper if you choose a method.",
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
        [], "Methods that each train an E1 to teach E2; by default only the method.", METHOD
    )
    only_base: bool = setting(False, "Stop after stage 1.", METHOD, common=True)

    max_seq_length: Count = setting(128, "Maximum tokens per sentence of the saved encoder.", TRAINING, ge=3)

    rank_loss_weight: float = setting(0.05, "Weight of the rank loss, λ_train of Eq. 6.", STAGE_2, ge=0)
    lower: Correlation = setting(-1.0, "τ_l: minimum target of a pair in the rank loss.", STAGE_2)
    upper: Correlation = setting(1.0, "τ_u: maximum target of a pair in the rank loss.", STAGE_2)
    combine: Literal["max", "sum"] = setting("max", "Combine both losses by max or sum.", STAGE_2)
    diagonal: Literal["auto", "always", "never"] = setting(
        "auto", "Pair a sentence with itself: auto (by the bounds), always or never.", STAGE_2
    )
    student: Literal["encoder", "head"] = setting(
        "encoder", "Train the cosines of the encoder or the training head.", STAGE_2
    )
    target: Literal["ranks", "cosine"] | Power = setting(
        "ranks", "Similarity that E2 learns: ranks, cosine, or a power of the covariance (-0.25).", STAGE_2
    )
    listwise: Literal["none", "listnet"] = setting(
        "none", "Also train on the order of each sentence's similarities: listnet.", STAGE_2
    )
    reference_size: Count = setting(10_000, "Sentences of the reference corpus.", STAGE_2, ge=2)
    rank_weight: float = setting(0.1, "λ of Eq. 7 in the saved RankEncoder.", STAGE_2, ge=0, le=1)
    form: Literal["exact", "compact", "linear"] = setting(
        "compact", "Form of the saved RankEncoder: exact, compact or linear.", STAGE_2
    )
    normalize_reference: bool = setting(
        True,
        "Rank references by cosine; no for inner products with raw vectors, as in the authors' code.",
        STAGE_2,
    )

    cuda_graphs: bool = setting(True, "Replay steps as CUDA graphs, on a GPU.", RUNNING)
    compile: Automatic = setting(
        "auto",
        "Compile the layers in CUDA graphs; auto in stages that read 300,000 sentences or more.",
        RUNNING,
    )

    @model_validator(mode="after")
    def _check(self) -> TrainConfig:
        if self.lower > self.upper:
            raise ValueError(f"lower {self.lower} is above upper {self.upper}")
        if self.only_base and self.base_encoder:
            raise ValueError("only_base trains E1, and base_encoder replaces it: choose one")
        if self.teachers and (self.only_base or self.base_encoder):
            other = "only_base trains no E2" if self.only_base else "base_encoder replaces them"
            raise ValueError(f"teachers are trained for E2, but {other}: choose one")
        if not self.normalize_reference and self.form != "exact":
            raise ValueError(f"raw reference vectors (normalize_reference) need form exact, not {self.form}")
        if len(set(self.teachers)) < len(self.teachers):
            raise ValueError(f"teachers names a method twice: {', '.join(self.teachers)}")
        return self


@dataclass(frozen=True)
class Given(GivenSettings):
    """The settings that a user gave for a training, validated."""

    @property
    def preset(self) -> str:
        """The preset, by default "best", or "paper" for a chosen method."""
        return str(self.values.get("preset", "paper" if "method" in self.values else "best"))

    @property
    def method(self) -> str:
        """The method of E2, and of its own E1."""
        return self.draft.method

    @property
    def draft(self) -> TrainConfig:
        """The settings without those of the method, which depend on the backbone."""
        return self._merged({}, {})

    def resolve(
        self, traits: Traits, method_class: type[Method], *, method: str | None = None
    ) -> TrainConfig:
        """Return all settings: given ones, else those of the preset, the method, or the defaults.

        :param method: Return the settings of this teacher's E1, without the student's options.
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
    """Return the settings of a file and those given, which take precedence; None means "not given"."""
    found = read_values(TrainConfig, values, file)
    if found.get("options"):
        from rankencoder.training.methods.method import absolute_options

        found["options"] = absolute_options(Given(found).method, found["options"])
    return Given(found)


def default_text(name: str) -> str:
    """Return the default of a setting and the presets' choices, for help and documentation.

    >>> default_text("target"), default_text("lower")
    ('ranks; best: cosine', '-1; paper: 0.5; authors-code: 0.5')
    """
    field = TrainConfig.model_fields[name]
    default = field.default
    about: Any = field.json_schema_extra
    others = {key: chosen[name] for key, chosen in PRESETS.items() if chosen.get(name, default) != default}
    return "; ".join([*show_defaults(default, others), *["or the method's"] * about["by_method"]])
