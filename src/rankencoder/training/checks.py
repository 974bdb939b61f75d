"""Fail-fast checks that run before training starts."""

from __future__ import annotations

import warnings

from rankencoder.encoder_sources import check_device
from rankencoder.errors import InputError, TrainingWarning, nearest
from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.config import TrainConfig
from rankencoder.training.gather import is_first_process, world_size
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


def check_backbone(config: TrainConfig, method: type[Method], backbone: Backbone) -> None:
    """Check that a method can train a backbone on sentences of this length."""
    if backbone.kind not in method.kinds:
        raise InputError(
            f"method {method.name!r} trains {' and '.join(method.kinds)} language models, and "
            f"{backbone.name!r} is a {backbone.kind} one: use another backbone, or method 'simcse'"
        )
    if backbone.positions is not None and config.max_length > backbone.positions:
        raise InputError(f"max_length {config.max_length} is above the backbone's {backbone.positions}")


def warn_if_tuned(backbone: Backbone) -> None:
    """Warn if a backbone is a SentenceTransformer, which already was trained for similarity."""
    if backbone.pooling and is_first_process():
        message = (
            f"backbone {backbone.name!r} is a tuned sentence encoder: contrastive training usually makes it "
            "worse; `distill` can improve it"
        )
        warnings.warn(message, TrainingWarning, stacklevel=4)


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
