"""Extend sentence-transformers' trainer: exact resuming, best weights, logged parts of the loss."""

from __future__ import annotations

import math
import shutil
import time
import warnings
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import AutocastKwargs
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

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
    """Trains an encoder, and is able to go on from its checkpoints as if it had never stopped.

    Beyond sentence-transformers': gradients are clipped together with those of the loss' own layers, which
    are averaged over the processes and kept in checkpoints; losses are logged part by part; the best encoder
    by its dev score is kept, if there is an evaluator, or by the mean of a look at unlabeled text and its
    neighbors, for which the weights of the latest look are held; a loss that is NaN or infinite ends the
    training.

    :param patience: Stop after so many evaluations without a better one; 0 never stops.
    :param graphs: Replay the steps as CUDA graphs, where that is possible.
    :param compiled: Of compiled layers.
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
        # a cast weight that outlives its step would be an old one in a captured graph
        self.accelerator.autocast_handler = AutocastKwargs(cache_enabled=False)
        self.step = GraphedStep(self.loss, compiled=compiled) if graphs else None
        self._sums: torch.Tensor | None = None
        self._summed = 0
        self._began = time.perf_counter()
        self.add_callback(_KeepBest(self))

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Leave the model card to us: sentence-transformers would print training sentences into it."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Return the loss of a batch, its parts being added up for the log."""
        features = self.collect_features(inputs)[0][0]
        loss: Any
        if self.step is not None and self.step.fits(features):
            loss, parts = self.step(features)
        else:
            loss = super().compute_loss(model, inputs, *args, **kwargs)
            parts = logged_parts(self.loss)
        self._sums = parts + self._sums if self._sums is not None else parts.clone()
        self._summed += 1
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the means of the loss' parts since the last time along with it; it must be finite."""
        if not math.isfinite(logs.get("loss", 0)):
            raise InputError(
                f"the loss is {logs['loss']} at step {self.state.global_step}: train again with a lower "
                "`learning_rate`, or with `precision` fp32"
            )
        if "loss" in logs and self._sums is not None:
            means = (self._sums / self._summed).tolist()
            logs = {**logs, **dict(zip(self.loss.logged, means, strict=True))}
            logs["seconds"] = time.perf_counter() - self._began
            self._sums, self._summed = None, 0
        super().log(logs, start_time)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Score the model at full precision and without a trace: training goes on as if nobody had looked."""
        scoring = getattr(self.loss, "scoring", nullcontext)  # a method's own way, in stage 1
        half = vars(self.model).pop("forward", None)  # accelerate's, which casts to half precision
        try:
            with torch.random.fork_rng(devices=[]), scoring():  # upstream's empty data loader draws a seed
                return super().evaluate(*args, **kwargs)
        finally:
            if half is not None:
                vars(self.model)["forward"] = half

    @cached_property
    def _own_parameters(self) -> dict[str, torch.nn.Parameter]:
        """The trained parameters of the loss that are not the model's."""
        models = {id(parameter) for parameter in self.model.parameters()}
        return {
            name: p for name, p in self.loss.named_parameters() if id(p) not in models and p.requires_grad
        }

    @cached_property
    def _trained_parameters(self) -> list[torch.nn.Parameter]:
        """All trained parameters, the model's and the loss' own."""
        return [parameter for parameter in self.loss.parameters() if parameter.requires_grad]

    def _own_tensors(self) -> dict[str, torch.Tensor]:
        """Return all of the loss that training changes."""
        return {**self._own_parameters, **self.loss.state()}

    def _clip_grad_norm(self, model: Any) -> Any:
        average_gradients(self._own_parameters.values())
        return self.accelerator.clip_grad_norm_(self._trained_parameters, self.args.max_grad_norm)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        self.check_weights()
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"
        with write_errors_named(folder):
            super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()  # each process writes a part
        if self.args.should_save:
            sync_tree(folder)
            write_manifest(folder)  # the last file: with it, the checkpoint is whole

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        assert output_dir is not None
        folder = Path(output_dir)
        self.model.save_pretrained(str(folder), create_model_card=False)
        save_file({name: t.detach().contiguous() for name, t in self._own_tensors().items()}, folder / _LOSS)
        if self.best is not None:
            about = {"score": repr(self.best["score"]), "step": str(self.best["step"])}
            save_file(self.best["weights"], folder / _BEST, metadata=about)
        if self.held is not None:
            save_file(self.held["weights"], folder / _HELD, metadata={"step": str(self.held["step"])})

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        folder = Path(resume_from_checkpoint)
        try:
            super()._load_from_checkpoint(resume_from_checkpoint)
            self._load_own(folder)
        except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"{folder} is damaged ({first_line(error)}): delete it to resume from an earlier one"
            ) from error

    def _load_own(self, folder: Path) -> None:
        own = self._own_tensors()
        with torch.no_grad():
            for name, value in load_file(folder / _LOSS).items():
                own[name].copy_(value)
        if (folder / _BEST).exists():
            about, look = _load_look(folder / _BEST)
            self.best = {"score": float(about["score"]), **look}
        if (folder / _HELD).exists():
            _, self.held = _load_look(folder / _HELD)

    def check_weights(self) -> None:
        """Make sure that weights are finite, before they are written."""
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self.loss.parameters()):
            raise InputError(
                f"weights are not finite after step {self.state.global_step}: lower `learning_rate` or set "
                "`precision` to fp32"
            )

    def keep_if_best(self, score: float) -> None:
        """Keep the present weights, if this score is higher than that of the kept ones."""
        if score > (self.best["score"] if self.best else -math.inf):  # NaN is not
            self.best = {"score": score, **self._look()}

    def hold(self) -> None:
        """Hold the present weights until the next look; those held so far have both their neighbors now."""
        self.judge_held()
        self.held = self._look()

    def judge_held(self) -> None:
        """Keep the held weights, if the mean of their score and its neighbors is the highest."""
        if self.held is None:
            return
        scores = self.scores()
        means = dict(zip(scores, smoothed(list(scores.values())), strict=True))
        # with two looks both have the same mean, and the scores themselves decide
        ranks = [(means[look["step"]], scores[look["step"]]) for look in (self.held, self.best) if look]
        if self.best is None or ranks[0] > ranks[1]:
            self.best = {"score": means[self.held["step"]], **self.held}
        self.held = None

    def _look(self) -> dict[str, Any]:
        weights = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}
        return {"step": self.state.global_step, "weights": weights}

    def scores(self) -> dict[int, float]:
        """Return the scores of all looks by their steps."""
        return {int(log["step"]): log[DEV] for log in self.state.log_history if DEV in log}

    def is_patience_over(self) -> bool:
        """Say whether there was no better score for long."""
        if not self.patience or self.best is None:
            return False
        later = len([step for step in self.scores() if step > self.best["step"]])
        return later - self.smooth >= self.patience  # the held look is not judged yet

    def is_over(self) -> bool:
        """Say whether there is nothing left to train."""
        return self.state.global_step >= self.state.max_steps or self.is_patience_over()

    def take_up(self, checkpoint: str) -> bool:
        """Take up a checkpoint if it is the last one of a stage that was trained to its end, and say so."""
        self.state = TrainerState.load_from_json(str(Path(checkpoint) / TRAINER_STATE_NAME))
        self._load_from_checkpoint(checkpoint)
        return self.is_over()


class _KeepBest(TrainerCallback):
    """Logs and scores the last step too, and keeps the best weights."""

    def __init__(self, trainer: EncoderTrainer) -> None:
        self.trainer = trainer

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if state.global_step == state.max_steps:
            control.should_log = True
            control.should_evaluate = self.trainer.evaluator is not None

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.trainer.smooth:
            self.trainer.hold()
        else:
            self.trainer.keep_if_best(kwargs["metrics"][DEV])
        if self.trainer.is_patience_over():
            control.should_training_stop = True


def _load_look(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Read the weights of a look, with what is known of it."""
    with safe_open(path, "pt") as file:
        about = file.metadata()
    return about, {"step": int(about["step"]), "weights": load_file(path)}


def drop_incomplete(folder: Path) -> None:
    """Delete the checkpoints in a folder that were not written whole, or are damaged."""
    for path in folder.glob("checkpoint-*"):
        try:
            whole = check_manifest(path, advice="the checkpoint is left out")
        except InputError as error:
            warnings.warn(str(error), TrainingWarning, stacklevel=2)
            whole = False
        if not whole:
            shutil.rmtree(path)


def last_checkpoint(folder: Path) -> str | None:
    """Return the newest whole checkpoint in a folder."""
    whole = [path.parent for path in folder.glob(f"checkpoint-*/{MANIFEST}")]
    return str(max(whole, key=lambda path: int(path.name.rpartition("-")[2]))) if whole else None
