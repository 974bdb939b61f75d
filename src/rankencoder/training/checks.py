"""Fail-fast checks that run before training starts."""

from __future__ import annotations

import warnings

from rankencoder.encoder_sources import check_device
from rankencoder.errors import InputError, TrainingWarning, nearest
from rankencoder.training.config import TrainConfig
from rankencoder.training.gather import world_size
from rankencoder.training.loop.evaluators import make_evaluator
from rankencoder.training.loop.stage import uses_graphs
from rankencoder.training.methods.method import Method
from rankencoder.training.run_settings import RunSettings


def check_machine(config: RunSettings) -> None:
    """Check that device, loggers and dev files are available."""
    from transformers.integrations import integration_utils

    if config.device != "auto":
        check_device(config.device)
    for name in config.report_to:
        if name not in integration_utils.get_available_reporting_integrations():
            known = integration_utils.INTEGRATION_TO_CALLBACK
            advice = f" not installed (pip install {name})" if name in known else nearest(name, known)
            raise InputError(f"cannot report to {name!r}:{advice}")
    make_evaluator(config.dev)


def check_batches(config: RunSettings, sentences: int) -> None:
    """Check that the sentences fill a batch."""
    needed = config.batch_size * world_size()
    if sentences < needed:
        raise InputError(
            f"the corpus has {sentences:,} sentences to train on, fewer than one batch of {needed:,}: add "
            "text or lower `batch_size`"
        )


def check_compile(config: TrainConfig, method: Method) -> None:
    """Warn if `compile` has no effect."""
    if config.compile and not uses_graphs(config, method):
        message = f"compile is ignored: method {method.name!r} uses no CUDA graphs with these settings"
        warnings.warn(message, TrainingWarning, stacklevel=4)
