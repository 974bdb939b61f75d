"""Train one encoder, from the last checkpoint if there is one."""

from __future__ import annotations

import gc
import itertools
import logging
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers.integrations.integration_utils import TensorBoardCallback
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import IntervalStrategy

from rankencoder.training.config import TrainConfig
from rankencoder.training.gather import WAIT, world_size
from rankencoder.training.loop.callbacks import ShowProgress, StopAtSignal
from rankencoder.training.loop.trainer import DEV, EncoderTrainer, drop_incomplete, last_checkpoint
from rankencoder.training.methods.method import Method
from rankencoder.training.run_settings import RunSettings

LOG = logging.getLogger("rankencoder.training")
_COMPILED = 300_000  # sentences: compiling takes about as long as it saves at BERT-base size on an H200
_SAME_NAME = (  # settings with the same name in sentence-transformers
    *("seed", "learning_rate", "weight_decay", "warmup_steps", "max_grad_norm"),
    *("logging_steps", "eval_steps", "save_steps"),
)


@dataclass
class StageResult:
    """A finished stage; ``interrupted`` if a signal arrived at its last step."""

    model: SentenceTransformer
    loss: torch.nn.Module
    about: dict[str, Any]
    interrupted: bool


def train_stage(
    loss: Any,
    rows: Dataset,
    collate: Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]],
    args: SentenceTransformerTrainingArguments,
    *,
    logs: Path,
    name: str = "training",
    title: str = "",
    **settings: Any,
) -> StageResult:
    """Minimize a loss over the training sentences, from the last checkpoint if there is one.

    An evaluator chooses the best weights, which may be those before step 1.

    :param loss: Loss that holds the model to train.
    :param args: Trainer's arguments; checkpoints go to ``output_dir``.
    :param logs: Folder for TensorBoard, unless the user has chosen one.
    :param name: Name of the stage in the log.
    :param title: Title of the progress bar; none without a title.
    :param settings: Further arguments of the `EncoderTrainer`.
    :raises KeyboardInterrupt: If it was interrupted; a checkpoint is written first.
    """
    args.eval_strategy = IntervalStrategy("steps" if settings.get("evaluator") else "no")
    model, folder = loss.model, Path(str(args.output_dir))  # the loss' own is wrapped with several processes
    trainer = EncoderTrainer(
        model=model, args=args, train_dataset=rows, loss=loss, data_collator=collate, **settings
    )
    trainer.remove_callback(PrinterCallback)
    board: Any = trainer.pop_callback(TensorBoardCallback)
    if board is not None:
        board.logging_dir = board.logging_dir or str(logs)
        trainer.add_callback(board)
    if title:
        trainer.add_callback(ShowProgress(title))
    if args.process_index == 0:
        drop_incomplete(folder)
    trainer.accelerator.wait_for_everyone()
    checkpoint = last_checkpoint(folder)
    args.eval_on_start = trainer.evaluator is not None and checkpoint is None  # a checkpoint has this score
    if args.eval_on_start and args.process_index == 0:
        dev: Any = trainer.evaluator
        LOG.info("%s: %s choose the weights, by %s", name, dev.pairs, dev.metric)
    began = time.perf_counter()
    with StopAtSignal(enabled=world_size() == 1) as stop:
        trainer.add_callback(stop)
        if checkpoint is None or not trainer.is_over_at(checkpoint):
            trainer.train(resume_from_checkpoint=checkpoint)
    seconds = time.perf_counter() - began
    if stop.stopped and not trainer.is_over():
        raise KeyboardInterrupt
    trainer.check_weights()
    trainer.judge_held()  # the last evaluation has one neighbor
    if trainer.best is not None:
        model.load_state_dict(trainer.best["weights"])
    model.eval()
    vars(model).pop("forward", None)  # accelerate's, which casts to half precision
    trainer.step = None
    gc.collect()  # frees the graphs' memory before the next stage
    if settings.get("compiled"):
        torch._dynamo.reset()  # it compiles a limited number of shapes
    about = _about(trainer, seconds, checkpoint)
    if args.process_index == 0 and about["best"] and (trainer.smooth or not about["best"]["step"]):
        level = logging.INFO if about["best"]["step"] else logging.WARNING
        LOG.log(level, "%s: %s", name, describe_choice(about))
    return StageResult(model, loss, about, stop.stopped)


def training_arguments(config: RunSettings, folder: Path) -> SentenceTransformerTrainingArguments:
    """Return the settings as sentence-transformers' training arguments."""
    gpu = on_gpu(config)
    automatic = min(4, os.cpu_count() or 1) if gpu else 0
    args = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        **{name: getattr(config, name) for name in _SAME_NAME},
        num_train_epochs=config.epochs,
        max_steps=config.max_steps or -1,
        per_device_train_batch_size=config.batch_size,
        gradient_accumulation_steps=config.gradient_accumulation,
        lr_scheduler_type="linear",
        fp16=gpu and config.precision == "fp16",
        bf16=gpu and config.precision == "bf16",
        use_cpu=config.device == "cpu",
        logging_first_step=True,
        logging_nan_inf_filter=False,  # it would synchronize the GPU at every step
        save_strategy="steps",
        save_total_limit=2,
        report_to=config.report_to or "none",
        dataloader_num_workers=automatic if config.workers < 0 else config.workers,
        dataloader_pin_memory=gpu,
        dataloader_drop_last=world_size() > 1,  # gathered batches need one size
        disable_tqdm=True,
        ddp_timeout=int(WAIT.total_seconds()),
    )
    args._n_gpu = min(1, args.n_gpu)  # never DataParallel: several GPUs need several processes
    return args


def on_gpu(config: RunSettings) -> bool:
    """Return whether training runs on a GPU."""
    return config.device != "cpu" and torch.cuda.is_available()


def uses_graphs(config: TrainConfig, method: Method) -> bool:
    """Return whether steps are replayed as CUDA graphs."""
    adds_up = world_size() > 1 or config.gradient_accumulation > 1  # a graph replaces gradients
    return on_gpu(config) and config.cuda_graphs and method.graphs and not adds_up


def is_compiled(config: TrainConfig, sentences: int) -> bool:
    """Return whether to compile the layers: by default where a stage is so long that this saves time."""
    if config.compile != "auto":
        return config.compile
    read = config.max_steps * config.batch_size or config.epochs * sentences
    return read >= _COMPILED


def _about(trainer: EncoderTrainer, seconds: float, checkpoint: str | None) -> dict[str, Any]:
    """Return a finished stage's part of the record."""
    state = trainer.state
    started = int(checkpoint.rpartition("-")[2]) if checkpoint else 0
    best, device = trainer.best, trainer.args.device
    dev: Any = trainer.evaluator
    key = "halves" if trainer.smooth else "dev"
    scores = trainer.scores()
    trained = [score for step, score in scores.items() if step > 0 and not math.isnan(score)]
    logs = [log for log in state.log_history if "seconds" in log and log["step"] > started]
    return {
        "steps": state.global_step,
        "resumed_at": started or None,
        "seconds": round(seconds, 3),
        "milliseconds_per_step": _step_time(logs, seconds, state.global_step - started),
        "metric": dev.metric if dev else None,
        "start": scores.get(0),
        "trained": max(trained, default=None),
        "best": {"step": best["step"], key: best["score"]} if best else None,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processes": world_size(),
        "history": [_entry(log, key) for log in state.log_history if "loss" in log or DEV in log],
    }


def describe_choice(about: Mapping[str, Any]) -> str:
    """Describe which weights a finished stage kept; nothing if these are the last ones.

    >>> about = {"metric": "Spearman", "start": 0.7143, "trained": 0.6382, "best": {"step": 0, "dev": 0.7143}}
    >>> describe_choice(about)
    'Spearman at the start 71.43, best 63.82: keeping the start'
    >>> describe_choice({"steps": 1000, "best": {"step": 300, "halves": 0.9}})
    'no scored pairs: keeping the weights that tell sentence halves best (step 300 of 1,000)'
    """
    best = about["best"]
    if not best:
        return ""
    if "halves" in best:
        step = f"step {best['step']:,} of {about['steps']:,}" if best["step"] else "the start"
        return f"no scored pairs: keeping the weights that tell sentence halves best ({step})"
    if best["step"]:
        return f"dev {about['metric']} {100 * best['dev']:.2f} at step {best['step']:,}"
    trained = "nan" if about["trained"] is None else f"{100 * about['trained']:.2f}"
    return f"{about['metric']} at the start {100 * about['start']:.2f}, best {trained}: keeping the start"


def _step_time(logs: list[dict[str, Any]], seconds: float, steps: int) -> float:
    """Return the median time of a step, without start-up, checkpoints and evaluations."""
    marks = itertools.pairwise((log["step"], log["seconds"]) for log in logs)
    times = [(end - start) / (last - first) for (first, start), (last, end) in marks if last > first]
    return round(1000 * (statistics.median(times) if times else seconds / max(1, steps)), 3)


def _entry(log: dict[str, Any], key: str) -> dict[str, Any]:
    left_out = ("eval_runtime", "eval_samples_per_second", "eval_steps_per_second", DEV)
    entry = {name: value for name, value in log.items() if name not in left_out}
    return {**entry, key: log[DEV]} if DEV in log else entry
