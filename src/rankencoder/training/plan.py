"""Plan a training: resolve and check its settings before anything is written."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass

from transformers import set_seed
from transformers.integrations import integration_utils

from rankencoder.encoder_sources import check_device, check_encoder_name
from rankencoder.errors import InputError, TrainingWarning, nearest
from rankencoder.training.backbones.backbone import Backbone, load_backbone
from rankencoder.training.config import Given, TrainConfig
from rankencoder.training.gather import is_first_process, world_size
from rankencoder.training.loop.evaluators import make_evaluator
from rankencoder.training.loop.stage import on_gpu, uses_graphs
from rankencoder.training.methods import find_method, make_method
from rankencoder.training.methods.method import Method
from rankencoder.training.run_settings import RunSettings


@dataclass(frozen=True)
class TrainEncoder:
    """The training of one encoder: E1 by a method, or E2, which also learns from teachers."""

    output: str  # its folder below the run's, which exists once the training is done
    stage: int  # 1 for E1, 2 for E2
    work: str  # the folder of its checkpoints, below "work"
    config: TrainConfig
    method: Method

    def __str__(self) -> str:
        config = self.config
        length = f"{config.max_steps:,} steps" if config.max_steps else f"{config.epochs:g} epoch(s)"
        target = {"ranks": "ranks", "cosine": "cosines"}.get(str(config.target), f"power {config.target}")
        learns = f" and its teachers' {target} ({describe_loss(config)})" if self.stage == 2 else ""
        return (
            f"train E{self.stage} by {config.method}{learns}: {length}, batches of {config.batch_size}, "
            f"learning rate {config.learning_rate:g}"
        )


def describe_loss(config: TrainConfig) -> str:
    """Return the loss of stage 2 as a formula."""
    parts = ["contrastive", f"{config.rank_loss_weight:g} × squared error"]
    loss = " + ".join(parts) if config.combine == "sum" else f"max({', '.join(parts)})"
    return f"loss: {loss}{' + ListNet' if config.listwise == 'listnet' else ''}"


class BackboneCache:
    """Loads the backbone once per dropout, and gives each training its own copy."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.loaded: dict[float | None, Backbone] = {}

    def fresh(self, method: type[Method] | Method) -> Backbone:
        """Return an untrained copy for a method."""
        if method.dropout not in self.loaded:
            set_seed(self.config.seed)  # for weights missing from the checkpoint
            self.loaded[method.dropout] = load_backbone(
                self.config.backbone,
                revision=self.config.revision,
                max_seq_length=self.config.max_seq_length,
                dropout=method.dropout,
            )
        loaded = self.loaded[method.dropout]
        return copy.deepcopy(loaded, {id(loaded.tokenizer): loaded.tokenizer})  # copying it takes seconds


@dataclass(frozen=True)
class Plan:
    """The steps of a training."""

    config: TrainConfig  # the student's, resolved
    trainings: tuple[TrainEncoder, ...]
    teachers: tuple[str, ...]  # E2's teachers: given encoders, and outputs of trainings
    backbones: BackboneCache

    def __str__(self) -> str:
        config, names = self.config, " and ".join(self.teachers)
        steps = [
            f"store the distinct sentences of {config.corpus or 'the given corpus'} -> work/sentences.json"
        ]
        for training in self.trainings:
            if training.stage == 2:
                number = f"{config.reference_size:,}"
                steps.append(f"encode all sentences and {number} references by {names} -> work/targets")
            steps.append(f"{training} -> {training.output}")
        if not config.only_base:
            weight = f"rank_weight {config.rank_weight:g}"
            steps.append(f"write E2 with its reference corpus as a RankEncoder, {weight} -> rankencoder")
        recipe = f"recipe {config.preset}, {config.backbone}, {config.precision}, seed {config.seed}"
        return "\n".join([recipe, *(f"{number}. {step}" for number, step in enumerate(steps, start=1))])


def make_plan(given: Given) -> Plan:
    """Resolve and check the settings of a training, and list its steps."""
    cache = BackboneCache(given.draft)
    check_machine(given.draft)
    make_evaluator(given.draft.stage2_dev)  # reads them
    for name in given.draft.base_encoder:
        check_encoder_name(name)
    config, method = _resolve(given, None, cache)
    if any(backbone.pooling for backbone in cache.loaded.values()) and is_first_process():
        message = (
            f"backbone {config.backbone!r} is a tuned sentence encoder: contrastive training usually makes "
            "it worse; `distill` can improve it"
        )
        warnings.warn(message, TrainingWarning, stacklevel=3)
    trainings, teachers = list[TrainEncoder](), list(config.base_encoder)
    for name in [] if teachers else config.teachers or [config.method]:
        if name == config.method:
            step = TrainEncoder("base", 1, "stage-1", config, method)
        else:
            own, other = _resolve(given, name, cache)
            step = TrainEncoder(f"teachers/{name}", 1, f"teachers/{name}/stage-1", own, other)
        trainings.append(step)
        teachers.append(step.output)
    if not config.only_base:
        dev = config.stage2_dev or config.dev
        student = config.model_copy(update={"dev": dev})
        trainings.append(TrainEncoder("encoder", 2, "stage-2", student, method))
    return Plan(config, tuple(trainings), tuple(teachers), cache)


def _resolve(given: Given, name: str | None, cache: BackboneCache) -> tuple[TrainConfig, Method]:
    """Return the settings and method of a teacher or the student, if it can train the backbone."""
    cls = find_method(name or given.method)
    backbone = cache.fresh(cls)
    if backbone.kind not in cls.kinds:
        raise InputError(
            f"method {cls.name!r} trains {' and '.join(cls.kinds)} language models, and "
            f"{backbone.name!r} is a {backbone.kind} one: use another backbone, or method 'simcse'"
        )
    config = given.resolve(backbone, cls, method=name)
    if backbone.positions is not None and config.max_length > backbone.positions:
        raise InputError(f"max_length {config.max_length} is above the backbone's {backbone.positions}")
    method = make_method(config.method, config.options, {})
    method.check(backbone)
    method.encoder(backbone)  # fails on what does not fit, such as a tokenizer without [MASK]
    precision = config.precision if on_gpu(config) else "fp32"
    return config.model_copy(update={"precision": precision}), method


def check_machine(config: RunSettings) -> None:
    """Check that device, loggers and dev files are available."""
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
    if config.compile is True and not uses_graphs(config, method):
        message = f"compile is ignored: method {method.name!r} uses no CUDA graphs with these settings"
        warnings.warn(message, TrainingWarning, stacklevel=4)
