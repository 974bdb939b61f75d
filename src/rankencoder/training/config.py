"""The settings of a training: what can be chosen, what is chosen for you, and what makes no sense."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rankencoder.blend import check_rank_weight
from rankencoder.errors import InputError
from rankencoder.forms.linear import LinearForm
from rankencoder.io.storage import absolute
from rankencoder.training.backbones.backbone import MAX_SEQ_LENGTH
from rankencoder.training.settings_file import check_types, read_settings

if TYPE_CHECKING:
    from rankencoder.training.methods.method import Method, Traits

Precision = Literal["fp32", "fp16", "bf16"]


@dataclass
class TrainConfig:
    """The settings of a training. None stands for the choice of the method's authors, or of the preset.

    :param corpus: The sentences: a file or folder.
    :param output: The folder to write.
    :param column: The column that holds the sentences, where there are several.
    :param backbone: The pretrained language model to start from: folder or hub name.
    :param revision: The branch, tag or commit of a hub name.
    :param method: How to train: a name that ``rankencoder methods`` lists, or one that you registered.
    :param options: The method's own options.
    :param base_encoder: A finished encoder to take for E1: folder or hub name. Stage 1 is left out then. E2
        learns the average similarity of several.
    :param teachers: Methods whose E1 teach E2, each trained on the same sentences first; by default the
        method itself. Settings that are given hold for all of them.
    :param only_base: Stop after stage 1.
    :param dev: Files of scored pairs; the weights that do best on them (on average) are kept.
    :param seed: Of the head's weights, the order of the sentences and dropout.
    :param stage2_seed: The same for stage 2; by default the same number, as in the authors' code.
    :param epochs: Passes over the sentences.
    :param max_steps: Stop after so many steps, if given.
    :param batch_size: Sentences per step and process.
    :param gradient_accumulation: Batches per step of the optimiser; negatives come from one batch alone.
    :param learning_rate: At the first step; it falls linearly to 0.
    :param weight_decay: Of AdamW.
    :param warmup_steps: Steps in which the learning rate rises first; below 1, a share of them all.
    :param max_grad_norm: Longer gradients are cut to this norm.
    :param max_length: Tokens of a sentence that training sees.
    :param max_seq_length: Tokens that the finished encoder reads.
    :param precision: "fp16", "bf16" or "fp32"; on a CPU always fp32.
    :param preset: "best": what did best in our own experiments, which chooses method and teachers too;
        "paper" (Eq. 6 with max, pairs from 0.5 to 0.8, 100,000 references); or "authors-code". By default
        "best", and "paper" where you choose a method, its options, teachers, a finished E1 or anything of
        stage 2's loss yourself.
    :param rank_loss_weight: λ_train of Eq. 6.
    :param lower: τ_l, the least rank similarity of a pair that stage 2 learns.
    :param upper: τ_u, the largest.
    :param combine: "max" or "sum" of the two losses.
    :param diagonal: Whether a sentence is paired with itself: "auto" by the bounds, "always" or "never".
    :param student: Whose cosines learn the ranks: the "encoder"'s or the training "head"'s.
    :param reference_size: Sentences of the reference corpus.
    :param reference_seed: Draws another reference corpus.
    :param rank_weight: λ of Eq. 7, of the RankEncoder that is written.
    :param target: The similarity that E2 learns: E1's "ranks" (the paper), E1's "cosine", or that of a power
        of the reference corpus' covariance (−0.25, say).
    :param listwise: Learn the order of each sentence's similarities besides: "listnet" or "listmle".
    :param listwise_weight: Weight of that loss.
    :param listwise_temperature: Temperature of both lists.
    :param neighbors: Fill batches with so many of E1's nearest neighbours of each sentence in stage 2.
    :param rounds: Let E2 be the E1 of a next round, at most so often; rounds end when they gain nothing.
    :param form: The form of the RankEncoder that is written: "exact", "compact" or "linear".
    :param logging_steps: Steps from one log entry to the next.
    :param eval_steps: Steps from one look at the dev set to the next.
    :param patience: Stop a stage after so many looks without a better score.
    :param save_steps: Steps from one checkpoint to the next.
    :param report_to: Where logs go besides: "tensorboard", "trackio", "wandb".
    :param cuda_graphs: Replay training steps as CUDA graphs, on a GPU, where the method allows it.
    :param compile: Compile the layers of those steps; it takes some seconds first, and a C compiler.
    :param workers: Processes that make batches; by default none on a CPU.
    :param device: "cpu", to leave a GPU alone.
    """

    corpus: str | None = None
    output: str | None = None
    column: str | None = None
    backbone: str = "bert-base-uncased"
    revision: str | None = None
    method: str = "simcse"
    options: dict[str, Any] = field(default_factory=dict)
    base_encoder: list[str] | None = None
    teachers: list[str] = field(default_factory=list)
    only_base: bool = False
    dev: list[str] = field(default_factory=list)
    seed: int = 42
    stage2_seed: int | None = None
    epochs: float | None = None
    max_steps: int | None = None
    batch_size: int | None = None
    gradient_accumulation: int = 1
    learning_rate: float | None = None
    weight_decay: float | None = None
    warmup_steps: float | None = None
    max_grad_norm: float = 1.0
    max_length: int | None = None
    max_seq_length: int = MAX_SEQ_LENGTH
    precision: Precision | None = None
    preset: Literal["paper", "authors-code", "best"] = "paper"
    rank_loss_weight: float = 0.05
    lower: float | None = None
    upper: float | None = None
    combine: Literal["max", "sum"] | None = None
    diagonal: Literal["auto", "always", "never"] | None = None
    student: Literal["encoder", "head"] | None = None
    reference_size: int | None = None
    reference_seed: int = 42
    target: Literal["ranks", "cosine"] | float = "ranks"
    listwise: Literal["listnet", "listmle"] | None = None
    listwise_weight: float = 1.0
    listwise_temperature: float = 0.05
    neighbors: int = 0
    rounds: int = 1
    rank_weight: float = 0.1
    form: Literal["exact", "compact", "linear"] = "compact"
    logging_steps: int = 10
    eval_steps: int | None = None
    patience: int | None = None
    save_steps: int = 500
    report_to: list[str] = field(default_factory=list)
    cuda_graphs: bool = True
    compile: bool = False
    workers: int | None = None
    device: str | None = None

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all settings."""
        return [setting.name for setting in dataclasses.fields(cls)]

    def resolved(self, backbone: Traits, method: type[Method]) -> TrainConfig:
        """Return the settings with the authors' choice for each that is None."""
        chosen: dict[str, Any] = {
            **_COMMON,
            **_PRESETS[self.preset],
            **{key: value for key, value in method.defaults(backbone).items() if key in self.names()},
            **_BY_METHOD.get(self.preset, {}).get(method.name, {}),
            "stage2_seed": self.seed,
        }
        missing = {key: value for key, value in chosen.items() if getattr(self, key) is None}
        _check_bounds(missing.get("lower", self.lower), missing.get("upper", self.upper))
        return dataclasses.replace(self, **missing)


_COMMON = {
    "epochs": 1.0,
    "weight_decay": 0.0,
    "warmup_steps": 0.0,
    "max_length": 32,
    "precision": "fp16",
    "eval_steps": 125,
}
_PAPER = {
    "lower": 0.5,
    "upper": 0.8,
    "combine": "max",
    "diagonal": "auto",
    "student": "encoder",
    "reference_size": 100_000,
}
_PRESETS: dict[str, dict[str, Any]] = {
    "paper": _PAPER,
    "authors-code": {**_PAPER, "student": "head", "reference_size": 10_000},
    "best": {**_PAPER, "reference_size": 10_000},
}
# in half precision 0.9999 is 1, so that their code for SimCSE pairs each sentence with itself; with SNCSE two
# templates keep the target of such a pair below 0.9999
_SUMMED = {"upper": 0.9999, "combine": "sum", "diagonal": "always"}
_BY_METHOD: dict[str, dict[str, dict[str, Any]]] = {
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
_BEST: dict[str, Any] = {
    "method": "consert",
    "teachers": ["consert", "promptbert"],
    "target": "cosine",
    "combine": "sum",
    "rank_loss_weight": 10.0,
    "lower": -1.0,
    "upper": 1.0,
    "diagonal": "never",
    "listwise": "listnet",
}
"""What the preset "best" chooses where nothing is given; see results/README.md."""

_HOW = (
    *("method", "options", "base_encoder", "teachers", "target", "combine", "rank_loss_weight", "lower"),
    *("upper", "diagonal", "student", "listwise", "listwise_weight", "listwise_temperature", "neighbors"),
)
"""Whoever gives one of these has chosen how to train, and all else is the paper's."""


def make_config(values: dict[str, Any], file: str | Path | None = None) -> TrainConfig:
    """Return checked settings: those of a file, and those given, which go before.

    :raises InputError: If a setting is unknown or makes no sense; with the file, and the nearest name.
    """
    settings = read_settings(Path(file), TrainConfig) if file is not None else {}
    settings.update(check_types(values, TrainConfig, "training"))
    if "preset" not in settings and all(settings.get(name) in (None, [], {}) for name in _HOW):
        settings["preset"] = "best"
    if settings.get("preset") == "best":
        one = settings.get("only_base") or settings.get("base_encoder")
        settings = {**_BEST, **({"teachers": []} if one else {}), **settings}
    config = TrainConfig(**settings)
    _make_absolute(config)
    _check_numbers(config)
    check_rank_weight(config.rank_weight)
    _check_target(config.target)
    if config.only_base and config.base_encoder:
        raise InputError("only_base trains E1 and base_encoder gives one: choose one of them")
    if config.teachers and (config.only_base or config.base_encoder):
        other = "only_base trains no E2" if config.only_base else "base_encoder gives finished ones"
        raise InputError(f"teachers are trained for E2, and {other}: choose one of them")
    if len(set(config.teachers)) < len(config.teachers):
        raise InputError(f"a method can teach once: {', '.join(config.teachers)} names one twice")
    return config


def _check_target(target: str | float) -> None:
    try:
        LinearForm.check(power=target if isinstance(target, float) else 0.0)
    except InputError as error:
        raise InputError(f"target {target} is no similarity: {error}") from error


def _make_absolute(config: TrainConfig) -> None:
    """Let the settings mean the same wherever they are read again."""
    for name in ("corpus", "backbone"):
        value = getattr(config, name)
        if value is not None:
            setattr(config, name, absolute(value))
    config.base_encoder = [absolute(name) for name in config.base_encoder or ()] or None
    config.dev = [str(Path(file).expanduser().resolve()) for file in config.dev]
    if config.output is not None:
        config.output = str(Path(config.output).expanduser().resolve())


_AT_LEAST = {
    "epochs": 0,
    "max_steps": 1,
    "batch_size": 2,
    "gradient_accumulation": 1,
    "learning_rate": 0,
    "weight_decay": 0,
    "warmup_steps": 0,
    "max_grad_norm": 0,
    "max_length": 3,
    "max_seq_length": 3,
    "rank_loss_weight": 0,
    "reference_size": 2,
    "listwise_weight": 0,
    "listwise_temperature": 0,
    "neighbors": 0,
    "rounds": 1,
    "patience": 1,
    "logging_steps": 1,
    "eval_steps": 1,
    "save_steps": 1,
    "workers": 0,
    "seed": 0,
    "stage2_seed": 0,
}
_MOST = 10**12
_POSITIVE = ("epochs", "learning_rate", "max_grad_norm", "listwise_temperature")


def _check_numbers(config: TrainConfig) -> None:
    for name, least in _AT_LEAST.items():
        value = getattr(config, name)
        if value is not None and (value < least or (value == 0 and name in _POSITIVE)):
            raise InputError(
                f"{name} must be {'above' if name in _POSITIVE else 'at least'} {least}, not {value}"
            )
        if isinstance(value, int) and value > _MOST:
            raise InputError(f"{name} must be at most {_MOST:,}, not {value}")
    for name in ("seed", "stage2_seed"):
        if (getattr(config, name) or 0) >= 2**32:
            raise InputError(f"{name} must be below 2**32, not {getattr(config, name)}")
    _check_bounds(config.lower, config.upper)


def _check_bounds(lower: float | None, upper: float | None) -> None:
    low, high = -1.0 if lower is None else lower, 1.0 if upper is None else upper
    if not -1 <= low <= high <= 1:
        raise InputError(f"no pair is between lower {low} and upper {high}: they are correlations")
