"""What a training does, in two lines that a person understands."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rankencoder.training.config import TrainConfig
from rankencoder.training.methods import find_method


def describe_recipe(config: TrainConfig, sentences: int = 0) -> list[str]:
    """Return two lines that say what a training does, with the number of sentences if that is known."""
    number = f" on {sentences:,} sentences" if sentences else ""
    stages = _stage_2_alone(config, number) if config.base_encoder else _both_stages(config, number)
    lines = [f"recipe {config.preset}: {stages}"]
    epochs = f"{config.epochs:g} epoch{'s' * (config.epochs != 1)}"
    length = f"{config.max_steps:,} steps" if config.max_steps else epochs
    rest = "" if config.only_base else f", {config.reference_size:,} reference sentences"
    lines.append(
        f"{Path(config.backbone).name}, batch {config.batch_size}, learning rate {config.learning_rate:g}, "
        f"{length}, {config.precision}, seed {config.seed}{rest}"
    )
    return lines


def _both_stages(config: TrainConfig, number: str) -> str:
    names = config.teachers or [config.method]
    verb, whose = ("each train", "their") if len(names) > 1 else ("trains", "its")
    first = f"{_together(map(_title, names))} {verb} an encoder E1{number}"
    return first if config.only_base else f"{first}; {whose} {_target(config)} teach E2 ({_loss(config)})"


def _stage_2_alone(config: TrainConfig, number: str) -> str:
    learns = f"learns the {_target(config)} of {_together(config.base_encoder)}{number}"
    return f"E2 starts from {Path(config.backbone).name} and {learns} ({_loss(config)})"


def _target(config: TrainConfig) -> str:
    return {"ranks": "ranks", "cosine": "cosines"}.get(str(config.target), f"cosines (power {config.target})")


def _loss(config: TrainConfig) -> str:
    parts = ["contrastive", f"{config.rank_loss_weight:g} × squared error"]
    loss = " + ".join(parts) if config.combine == "sum" else f"max({', '.join(parts)})"
    listwise = " + ListNet" if config.listwise == "listnet" else ""
    return f"{_title(config.method)}; loss: {loss}{listwise}"


def _title(method: str) -> str:
    return find_method(method).__name__


def _together(names: Iterable[str]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))
