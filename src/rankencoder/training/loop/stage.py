"""One training: a loss, its model and a trainer, from the last checkpoint if there is one."""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    SequentialEvaluator,
)
from transformers.trainer_callback import PrinterCallback

from rankencoder.io.pairs import read_scored_pairs
from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.config import TrainConfig
from rankencoder.training.gather import WAIT, world_size
from rankencoder.training.loop.callbacks import Progress, StopAtSignal
from rankencoder.training.loop.collator import ViewCollator
from rankencoder.training.loop.trainer import DEV, EncoderTrainer, drop_incomplete, last_checkpoint
from rankencoder.training.methods.method import Method


@dataclass(frozen=True)
class Stage:
    """What to train, how, and where its checkpoints and TensorBoard's logs go."""

    number: int  # 1 (E1) or 2 (E2)
    config: TrainConfig
    method: Method
    checkpoints: Path
    logs: Path

    @property
    def seed(self) -> int:
        """The seed of head, data order and dropout."""
        return self.config.seed if self.number == 1 else self.config.stage2_seed


@dataclass
class Trained:
    """A finished stage; ``interrupted`` if a signal arrived at its last step."""

    model: SentenceTransformer
    loss: torch.nn.Module
    about: dict[str, Any]
    interrupted: bool


def train_stage(
    stage: Stage,
    loss: Any,
    backbone: Backbone,
    rows: Dataset,
    *,
    vectors: Mapping[str, np.ndarray],
    progress: bool,
) -> Trained:
    """Minimise a loss over the training sentences, from the last checkpoint if there is one.

    :param loss: Holds the model to train.
    :param vectors: Vectors of the training sentences that the loss wants, by name.
    :raises KeyboardInterrupt: If it was interrupted; a checkpoint is written before.
    """
    config, method, folder = stage.config, stage.method, stage.checkpoints
    model = loss.model  # several processes wrap the one inside the loss
    args = training_arguments(config, folder, stage.seed)
    graphs = no_graphs(config, method) is None
    args.dataloader_pin_memory = args.device.type == "cuda" and not graphs  # pinning would disturb a capture
    with _tensorboard_folder(stage.logs):
        trainer = EncoderTrainer(
            model=model,
            args=args,
            train_dataset=rows,
            loss=loss,
            evaluator=make_evaluator(config.dev),
            data_collator=ViewCollator(
                method, backbone, config.max_length, dict(vectors), 8 if graphs else 1
            ),
            patience=config.patience,
            graphs=graphs,
            compiled=config.compile,
        )
    trainer.remove_callback(PrinterCallback)
    if progress:
        trainer.add_callback(Progress(f"Stage {stage.number} ({method.name})"))
    if args.process_index == 0:
        drop_incomplete(folder)
    trainer.accelerator.wait_for_everyone()
    checkpoint = last_checkpoint(folder)
    began = time.perf_counter()
    with StopAtSignal(enabled=world_size() == 1) as stop:
        trainer.add_callback(stop)
        if checkpoint is None or not trainer.take_up(checkpoint):
            trainer.train(resume_from_checkpoint=checkpoint)
    seconds = time.perf_counter() - began
    if stop.stopped and not trainer.is_over():
        raise KeyboardInterrupt
    trainer.check_numbers()
    trainer.restore_best()
    model.eval()
    trainer.step = None
    gc.collect()  # frees the graphs and their memory now, not in the midst of the next stage
    return Trained(model, loss, _about(trainer, stage.number, seconds, checkpoint), stop.stopped)


@contextmanager
def _tensorboard_folder(folder: Path) -> Iterator[None]:
    """Let TensorBoard's logs go where they stay, unless the user has chosen a folder."""
    name = "TENSORBOARD_LOGGING_DIR"
    chosen = name in os.environ
    os.environ.setdefault(name, str(folder))
    try:
        yield
    finally:
        if not chosen:
            del os.environ[name]


def training_arguments(config: TrainConfig, folder: Path, seed: int) -> SentenceTransformerTrainingArguments:
    """Return the trainer's arguments for our settings."""
    gpu = on_gpu(config)
    automatic = min(4, os.cpu_count() or 1) if gpu else 0
    args = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        seed=seed,
        num_train_epochs=config.epochs,
        max_steps=config.max_steps or -1,
        per_device_train_batch_size=config.batch_size,
        gradient_accumulation_steps=config.gradient_accumulation,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        warmup_steps=config.warmup_steps,
        max_grad_norm=config.max_grad_norm,
        lr_scheduler_type="linear",
        fp16=gpu and config.precision == "fp16",
        bf16=gpu and config.precision == "bf16",
        use_cpu=config.device == "cpu",
        logging_steps=config.logging_steps,
        logging_first_step=True,
        logging_nan_inf_filter=False,  # it would make the device wait at every step
        eval_strategy="steps" if config.dev else "no",
        eval_steps=config.eval_steps,
        save_strategy="steps",
        save_steps=config.save_steps,
        save_total_limit=2,
        report_to=config.report_to or "none",
        dataloader_num_workers=automatic if config.workers < 0 else config.workers,
        dataloader_drop_last=world_size() > 1,  # processes gather batches of one size
        disable_tqdm=True,
        ddp_timeout=int(WAIT.total_seconds()),
    )
    args._n_gpu = min(1, args.n_gpu)  # never DataParallel: several GPUs are for several processes
    return args


def on_gpu(config: TrainConfig) -> bool:
    """Say whether training runs on a GPU."""
    return config.device != "cpu" and torch.cuda.is_available()


def no_graphs(config: TrainConfig, method: Method) -> str | None:
    """Return why steps cannot be replayed as CUDA graphs, or None if they can."""
    if not on_gpu(config):
        return "the device is 'cpu'" if config.device == "cpu" else "there is no CUDA device"
    if not config.cuda_graphs:
        return "cuda_graphs is off"
    if not method.graphs:
        return f"those of {method.name!r} cannot be"
    if world_size() > 1 or config.gradient_accumulation > 1:  # gradients are replaced, not added up
        return "that takes one process, and one batch a step"
    return None


def make_evaluator(files: list[str]) -> SequentialEvaluator | None:
    """Return an evaluator whose score is Spearman's correlation, averaged over the files of scored pairs."""
    if not files:
        return None
    evaluators = []
    for file in files:
        pairs = read_scored_pairs(file)
        evaluators.append(
            EmbeddingSimilarityEvaluator(
                [pair.a for pair in pairs],
                [pair.b for pair in pairs],
                [pair.score for pair in pairs],
                similarity_fn_names=["cosine"],
                batch_size=128,
                name=Path(file).stem,
                write_csv=False,
            )
        )
    return SequentialEvaluator(evaluators, main_score_function=lambda scores: sum(scores) / len(scores))


def _about(trainer: EncoderTrainer, number: int, seconds: float, checkpoint: str | None) -> dict[str, Any]:
    """Return what is to be known of a finished stage, for the record."""
    state = trainer.state
    started = int(checkpoint.rpartition("-")[2]) if checkpoint else 0
    best, device = trainer.best, trainer.args.device
    logs = [log for log in state.log_history if "seconds" in log and log["step"] > started]
    return {
        "stage": number,
        "steps": state.global_step,
        "resumed_at": started or None,
        "seconds": round(seconds, 3),
        "milliseconds_per_step": _step_time(logs, seconds, state.global_step - started),
        "best": {"step": best["step"], "dev": best["score"]} if best else None,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processes": world_size(),
        "history": [_entry(number, log) for log in state.log_history if "loss" in log or DEV in log],
    }


def _step_time(logs: list[dict[str, Any]], seconds: float, steps: int) -> float:
    """Return the median time of a step: free of the start, of checkpoints and of looks at the dev set."""
    pairs = itertools.pairwise(logs)
    times = [
        (b["seconds"] - a["seconds"]) / (b["step"] - a["step"]) for a, b in pairs if b["step"] > a["step"]
    ]
    return round(1000 * (statistics.median(times) if times else seconds / max(1, steps)), 3)


def _entry(number: int, log: dict[str, Any]) -> dict[str, Any]:
    left_out = ("eval_runtime", "eval_samples_per_second", "eval_steps_per_second")
    entry = {key: value for key, value in log.items() if key not in left_out}
    if DEV in entry:
        entry["dev"] = entry.pop(DEV)
    return {"stage": number, **entry}
