"""Train sentence encoders on unlabeled text."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankencoder.training.config import TrainConfig
    from rankencoder.training.methods import (
        DCLR,
        SNCSE,
        ConSERT,
        DiffCSE,
        ESimCSE,
        Method,
        PromptBERT,
        PromptEOL,
        SimCSE,
        SimCSEWithMLM,
        register,
    )
    from rankencoder.training.run import TrainingRun, train

__all__ = [
    "DCLR",
    "ConSERT",
    "DiffCSE",
    "ESimCSE",
    "Method",
    "PromptBERT",
    "PromptEOL",
    "SNCSE",
    "SimCSE",
    "SimCSEWithMLM",
    "TrainConfig",
    "TrainingRun",
    "register",
    "train",
]

_HOME = {"TrainConfig": "config", "TrainingRun": "run", "train": "run"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the command line's help needs only the settings."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME.get(name, 'methods')}"), name)
