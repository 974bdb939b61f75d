"""Training: from unlabelled text to sentence encoders."""

from rankencoder.training.config import TrainConfig
from rankencoder.training.methods import (
    SNCSE,
    Method,
    PromptBERT,
    SimCSE,
    SimCSEWithMLM,
    methods,
    register,
)
from rankencoder.training.run import TrainingRun, train

__all__ = [
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
