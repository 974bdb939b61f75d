"""A training as a list of steps, made and checked before anything is written."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from rankencoder.encoder_sources import check_encoder_name
from rankencoder.training.backbones.backbone import Backbone, load_backbone
from rankencoder.training.checks import check_backbone, check_machine, warn_if_tuned
from rankencoder.training.config import Given, TrainConfig
from rankencoder.training.loop.dev_evaluator import make_evaluator
from rankencoder.training.loop.stage import on_gpu
from rankencoder.training.methods import find_method, make_method
from rankencoder.training.methods.method import Method
from rankencoder.training.recipe import describe_recipe


@dataclass(frozen=True)
class Step:
    """One thing to do. It is done when its output, below the run's folder, is there."""

    output: str


@dataclass(frozen=True)
class StoreSentences(Step):
    """Read the corpus and store its distinct sentences."""

    corpus: str

    def __str__(self) -> str:
        return f"store the distinct sentences of {self.corpus or 'the given corpus'}"


@dataclass(frozen=True)
class TrainEncoder(Step):
    """Train an encoder by a method: E1, or E2 where there are targets to learn."""

    number: int  # the stage: 1 for E1, 2 for E2
    work: str  # the folder of its checkpoints, below "work"
    config: TrainConfig
    method: Method

    def __str__(self) -> str:
        config = self.config
        length = f"{config.max_steps:,} steps" if config.max_steps else f"{config.epochs:g} epoch(s)"
        taught = ", on its teachers' similarities" if self.number == 2 else ""
        return (
            f"train E{self.number} by {config.method}{taught}: {length}, batches of {config.batch_size}, "
            f"learning rate {config.learning_rate:g}"
        )


@dataclass(frozen=True)
class EncodeTargets(Step):
    """Let the teachers encode the training sentences and the reference corpus."""

    teachers: tuple[str, ...]  # finished encoders, and outputs of earlier steps
    references: int

    def __str__(self) -> str:
        return f"encode all sentences and up to {self.references:,} references by {', '.join(self.teachers)}"


@dataclass(frozen=True)
class WriteRankEncoder(Step):
    """Write E2 with its reference corpus."""

    rank_weight: float

    def __str__(self) -> str:
        return f"write the RankEncoder: E2 with its reference corpus, rank_weight {self.rank_weight:g}"


class BackboneShelf:
    """The backbone, read once for each dropout that a method wants; every training gets a copy of its own."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.loaded: dict[float | None, Backbone] = {}

    def fresh(self, method: type[Method] | Method) -> Backbone:
        """Return an untrained copy for a method."""
        if method.dropout not in self.loaded:
            from transformers import set_seed

            set_seed(self.config.seed)  # of weights that the checkpoint lacks
            self.loaded[method.dropout] = load_backbone(
                self.config.backbone,
                revision=self.config.revision,
                max_seq_length=self.config.max_seq_length,
                dropout=method.dropout,
            )
        loaded = self.loaded[method.dropout]
        return copy.deepcopy(loaded, {id(loaded.tokenizer): loaded.tokenizer})  # large ones take seconds


@dataclass(frozen=True)
class Plan:
    """All that a training will do."""

    config: TrainConfig  # the student's, all resolved
    steps: tuple[Step, ...]
    backbones: BackboneShelf

    @property
    def trainings(self) -> list[TrainEncoder]:
        """The steps that train an encoder."""
        return [step for step in self.steps if isinstance(step, TrainEncoder)]

    def __str__(self) -> str:
        lines = [f"{i}. {step} -> {step.output}" for i, step in enumerate(self.steps, start=1)]
        return "\n".join([*describe_recipe(self.config), *lines])


def make_plan(given: Given) -> Plan:
    """Resolve the settings of a training, check all that can be checked, and list its steps."""
    shelf = BackboneShelf(given.draft)
    check_machine(given.draft)
    make_evaluator(given.draft.stage2_dev)  # reads them
    for name in given.draft.base_encoder:
        check_encoder_name(name)
    config, method = _resolve(given, None, shelf)
    warn_if_tuned(shelf.fresh(method))
    steps: list[Step] = [StoreSentences("work/sentences.json", config.corpus)]
    teachers = list(config.base_encoder)
    for name in [] if teachers else config.teachers or [config.method]:
        if name == config.method:
            step = TrainEncoder("base", 1, "stage-1", config, method)
        else:
            own, other = _resolve(given, name, shelf)
            step = TrainEncoder(f"teachers/{name}", 1, f"teachers/{name}/stage-1", own, other)
        steps.append(step)
        teachers.append(step.output)
    if not config.only_base:
        dev = config.stage2_dev or config.dev
        steps += [
            EncodeTargets("work/targets", tuple(teachers), config.reference_size),
            TrainEncoder("encoder", 2, "stage-2", config.model_copy(update={"dev": dev}), method),
            WriteRankEncoder("rankencoder", config.rank_weight),
        ]
    return Plan(config, tuple(steps), shelf)


def _resolve(given: Given, name: str | None, shelf: BackboneShelf) -> tuple[TrainConfig, Method]:
    """Return a teacher's method, or else the student's, with its settings, if it can train the backbone."""
    cls = find_method(name or given.method)
    backbone = shelf.fresh(cls)
    config = given.resolve(backbone, cls, method=name)
    check_backbone(config, cls, backbone)
    method = make_method(config.method, config.options, {})
    method.check(backbone)
    method.encoder(backbone)  # says what does not fit, such as a tokenizer without [MASK]
    precision = config.precision if on_gpu(config) else "fp32"
    return config.model_copy(update={"precision": precision}), method
