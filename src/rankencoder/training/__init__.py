"""Training: from unlabelled text to sentence encoders."""

from rankencoder.training.config import TrainConfig
from rankencoder.training.methods import (
    DCLR,
    SNCSE,
    ConSERT,
    DiffCSE,
    ESimCSE,
    Method,
    PromptBERT,
    SimCSE,
    SimCSEWithMLM,
    methods,
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
    "SNCSE",
    "SimCSE",
    "SimCSEWithMLM",
    "TrainConfig",
    "TrainingRun",
    "methods",
    "register",
    "train",
]
