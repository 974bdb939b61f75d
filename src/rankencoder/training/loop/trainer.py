"""Extend sentence-transformers' trainer: exact resuming, best weights, logged parts of the loss."""

from __future__ import annotations

import math
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import AutocastKwargs
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from rankencoder.batching import to_device
from rankencoder.errors import InputError, TrainingWarning, first_line
from rankencoder.io.manifest import MANIFEST, check_manifest, write_manifest
from rankencoder.io.storage import sync_tree, write_errors_named
from rankencoder.training.gather import average_gradients
from rankencoder.training.loop.evaluators import SCORE, UnlabeledEvaluator, smoothed
from rankencoder.training.loop.graphs import GraphedStep, logged_parts

DEV = f"eval_{SCORE}"  # its key in the log
_LOSS = "loss.safetensors"
_BEST = "best.safetensors"
_HELD = "held.safetensors"


class EncoderTrainer(SentenceTransformerTrainer):
    """Train an encoder, and resume from checkpoints as if training had never stopped.

    Beyond sentence-transformers' trainer, the loss' own layers are averaged over processes, clipped with the
    model's gradients and kept in checkpoints; the parts of the loss are logged; a loss of NaN or infinity
    ends the training; and the best weights are kept. Best is the highest dev score, or without labels the
    highest mean of an evaluation and its neighbors, for which the latest weights are held.

    :param patience: Stop after this many evaluations without a better one; 0 never stops.
    :param graphs: Replay steps as CUDA graphs where possible.
    :param compiled: Compile the layers in those graphs.
    """

    loss: Any

    def __init__(
        self, *, patience: int = 0, graphs: bool = False, compiled: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.patience = patience
        self.best: dict[str, Any] | None = None
        self.held: dict[str, Any] | None = None
        self.smooth = isinstance(self.evaluator, UnlabeledEvaluator)
        # a cached cast of a weight would be stale in a captured graph
        self.accelerator.autocast_handler = AutocastKwargs(cache_enabled=False)
        self.step = GraphedStep(self.loss, self.accelerator.backward, compiled=compiled) if graphs else None
        self._sums: torch.Tensor | None = None
        self._summed = 0
        self._began = time.perf_counter()
        self.add_callback(_KeepBest(self))

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add none: sentence-transformers' model card quotes training sentences."""

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return batches that are still on the CPU: accelerate would wait for the GPU to move each."""
        self.accelerator.device_placement = False
        return super().get_train_dataloader()

    def _prepare_input(self, data: Any) -> Any:
        return super()._prepare_input(
            to_device(data, self.args.device) if isinstance(data, torch.Tensor) else data
        )

    def training_step(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        """Compute the gradients of a batch, by a graph if it has one, and return its loss."""
        if self.step is None:
            return super().training_step(model, inputs, *args, **kwargs)
        inputs = self._prepare_inputs(inputs)
        model.train()
        features = self.collect_features(inputs)[0][0]
        if not self.step.fits(features):
            return super().training_step(model, inputs, *args, **kwargs)
        loss, parts = self.step(features)
        self._add_up(parts)
        return loss

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of a batch, and sum its parts for the log."""
        loss = super().compute_loss(*args, **kwargs)
        self._add_up(logged_parts(self.loss))
        return loss

    def _add_up(self, parts: torch.Tensor) -> None:
        self._sums = parts + self._sums if self._sums is not None else parts.clone()
        self._summed += 1

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the loss, which must be finite, with the means of its parts since the last time."""
        if not math.isfinite(logs.get("loss", 0)):
            raise InputError(
                f"the loss is {logs['loss']} at step {self.state.global_step}: lower `learning_rate` or set "
                "`precision` to fp32"
            )
        if "loss" in logs and self._sums is not None:
            means = (self._sums / self._summed).tolist()
            logs = {**logs, **dict(zip(self.loss.logged, means, strict=True))}
            logs["seconds"] = time.perf_counter() - self._began
            self._sums, self._summed = None, 0
        super().log(logs, start_time)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Score the model without side effects on training, in TF32 if it is trained in half precision."""
        scoring = getattr(self.loss, "scoring", nullcontext)  # only some methods have one, in stage 1
        half = vars(self.model).pop("forward", None)  # accelerate's, which casts to half precision
        products = _tf32() if self.args.fp16 or self.args.bf16 else nullcontext()
        try:
            with torch.random.fork_rng(devices=[]), scoring(), products:  # the data loader draws a seed
                return super().evaluate(*args, **kwargs)
        finally:
            if half is not None:
                vars(self.model)["forward"] = half

    @cached_property
    def _own_parameters(self) -> dict[str, torch.nn.Parameter]:
        """Trained parameters of the loss outside the model."""
        models = {id(parameter) for parameter in self.model.parameters()}
        return {
            name: p for name, p in self.loss.named_parameters() if id(p) not in models and p.requires_grad
        }

    def _own_tensors(self) -> dict[str, torch.Tensor]:
        """Return all tensors of the loss that training changes."""
        return {**self._own_parameters, **self.loss.state()}

    def _clip_grad_norm(self, model: Any) -> Any:
        average_gradients(self._own_parameters.values())
        trained = [parameter for parameter in self.loss.parameters() if parameter.requires_grad]
        return self.accelerator.clip_grad_norm_(trained, self.args.max_grad_norm)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        self.check_weights()
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"
        with write_errors_named(folder):
            super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()  # each process writes a part
        if self.args.should_save:
            sync_tree(folder)
            write_manifest(folder)  # the last file, which marks the checkpoint as complete

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        assert output_dir is not None
        folder = Path(output_dir)
        self.model.save_pretrained(str(folder), create_model_card=False)
        save_file({name: t.detach().contiguous() for name, t in self._own_tensors().items()}, folder / _LOSS)
        for kept, name in ((self.best, _BEST), (self.held, _HELD)):
            if kept is not None:
                about = {"score": repr(kept["score"]), "step": str(kept["step"])}
                save_file(kept["weights"], folder / name, metadata=about)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        folder = Path(resume_from_checkpoint)
        try:
            super()._load_from_checkpoint(resume_from_checkpoint)
            own = self._own_tensors()
            with torch.no_grad():
                for name, value in load_file(folder / _LOSS).items():
                    own[name].copy_(value)
            self.best, self.held = _load_snapshot(folder / _BEST), _load_snapshot(folder / _HELD)
        except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"{folder} is damaged ({first_line(error)}): delete it to resume from an earlier one"
            ) from error

    def check_weights(self) -> None:
        """Check that all weights are finite before they are written."""
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self.loss.parameters()):
            raise InputError(
                f"weights are not finite after step {self.state.global_step}: lower `learning_rate` or set "
                "`precision` to fp32"
            )

    def keep_if_best(self, score: float) -> None:
        """Keep the current weights if they have the highest score."""
        if score > (self.best["score"] if self.best else -math.inf):  # NaN is not
            self.best = self._snapshot(score, self.best)

    def hold(self, score: float) -> None:
        """Hold the current weights until the next evaluation, which completes the neighbors of those held."""
        self.held = self._snapshot(score, self.judge_held())

    def judge_held(self) -> dict[str, Any] | None:
        """Keep the held weights if the mean of their score and its neighbors is the highest.

        :return: A snapshot that is no longer needed, if there is one: the held one, or the one that was best.
        """
        if self.held is None:
            return None
        scores = self.scores()
        means = dict(zip(scores, smoothed(list(scores.values())), strict=True))
        # with only two evaluations, both have the same mean, so the scores decide
        ranks = [(means[kept["step"]], scores[kept["step"]]) for kept in (self.held, self.best) if kept]
        worse = self.held
        if self.best is None or ranks[0] > ranks[1]:
            self.best, worse = {**self.held, "score": means[self.held["step"]]}, self.best
        self.held = None
        return worse

    def _snapshot(self, score: float, old: dict[str, Any] | None) -> dict[str, Any]:
        """Copy the current weights to the CPU, into an old snapshot's memory if given: new memory is slow."""
        state = self.model.state_dict()
        weights = old["weights"] if old else {n: torch.empty_like(v, device="cpu") for n, v in state.items()}
        for name, value in state.items():
            weights[name].copy_(value)
        return {"step": self.state.global_step, "score": score, "weights": weights}

    def scores(self) -> dict[int, float]:
        """Return the score of each evaluation by its step."""
        return {int(log["step"]): log[DEV] for log in self.state.log_history if DEV in log}

    def is_patience_over(self) -> bool:
        """Return whether the latest `patience` evaluations were no better than the best one."""
        if not self.patience or self.best is None:
            return False
        later = len([step for step in self.scores() if step > self.best["step"]])
        return later - self.smooth >= self.patience  # the held one is not judged yet

    def is_over(self) -> bool:
        """Return whether training is complete."""
        return self.state.global_step >= self.state.max_steps or self.is_patience_over()

    def is_over_at(self, checkpoint: str) -> bool:
        """Load a checkpoint, and return whether training was complete with it."""
        self.state = TrainerState.load_from_json(str(Path(checkpoint) / TRAINER_STATE_NAME))
        self._load_from_checkpoint(checkpoint)
        return self.is_over()


class _KeepBest(TrainerCallback):
    """Logs and evaluates the last step too, but writes no checkpoint of it, and keeps the best weights."""

    def __init__(self, trainer: EncoderTrainer) -> None:
        self.trainer = trainer

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if state.global_step == state.max_steps:
            control.should_log = True
            control.should_evaluate = self.trainer.evaluator is not None
            control.should_save = False  # the encoder is written next

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        keep = self.trainer.hold if self.trainer.smooth else self.trainer.keep_if_best
        keep(kwargs["metrics"][DEV])
        if self.trainer.is_patience_over():
            control.should_training_stop = True


@contextmanager
def _tf32() -> Iterator[None]:
    """Compute float32 matrix products in TF32 on a GPU, with PyTorch 2.9 or newer."""
    products = torch.backends.cuda.matmul
    before = getattr(products, "fp32_precision", None)
    if before is None:
        yield
        return
    products.fp32_precision = "tf32"
    try:
        yield
    finally:
        products.fp32_precision = before


def _load_snapshot(path: Path) -> dict[str, Any] | None:
    """Read kept weights with their step and score, if there are any."""
    if not path.exists():
        return None
    with safe_open(path, "pt") as file:
        about = file.metadata()
    return {"step": int(about["step"]), "score": float(about["score"]), "weights": load_file(path)}


def drop_incomplete(folder: Path) -> None:
    """Delete incomplete and damaged checkpoints."""
    for path in folder.glob("checkpoint-*"):
        try:
            whole = check_manifest(path, advice="the checkpoint is left out")
        except InputError as error:
            warnings.warn(str(error), TrainingWarning, stacklevel=2)
            whole = False
        if not whole:
            shutil.rmtree(path)


def last_checkpoint(folder: Path) -> str | None:
    """Return the newest complete checkpoint in a folder."""
    whole = [path.parent for path in folder.glob(f"checkpoint-*/{MANIFEST}")]
    return str(max(whole, key=lambda path: int(path.name.rpartition("-")[2]))) if whole else None
