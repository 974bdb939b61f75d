"""A training step of both stages against sentence-transformers' own trainer, on the same model and batch.

The peer is its SimCSE example: each sentence paired with itself, ``MultipleNegativesRankingLoss``, the same
length, batch, precision and optimiser. Random vectors stand in for E1's: the time does not depend on them.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from transformers import TrainerCallback

from rankencoder.training.config import read_given
from rankencoder.training.execution import train_encoder
from rankencoder.training.plan import make_plan
from rankencoder.training.sentences import Sentences, store_sentences
from rankencoder.training.teaching.targets import Targets
from speed import memory
from speed.models import load, model_folder, texts
from speed.timing import ratio

PEER = "sentence-transformers' trainer"
MAX_LENGTH = 32
LOGGED = 10  # steps between two looks at the loss, for which all trainers wait


def random_vectors(number: int, dimension: int) -> np.ndarray:
    """Return unit vectors with a spectrum as encoders have it."""
    random = np.random.default_rng(0)
    spread = random.standard_normal((dimension, dimension)) * np.linspace(3, 0.1, dimension)
    vectors = (random.standard_normal((number, dimension)) @ spread).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def settings(size: str, device: str, batch: int, steps: int) -> dict[str, Any]:
    """Return the settings of a stage that is trained for its time only."""
    return {
        "backbone": model_folder(size)[1],
        "method": "simcse",
        "batch_size": batch,
        "max_length": MAX_LENGTH,
        "max_steps": steps,
        "logging_steps": LOGGED if device == "cuda" else 1,
        "device": device,
    }


def stage_step(given: dict[str, Any], sentences: Sentences, targets: Targets | None) -> dict[str, Any]:
    """Train a stage; return the milliseconds of a step and the peak memory."""
    plan = make_plan(read_given(given, None))
    step = plan.trainings[0 if targets is None else -1]
    memory.reset_peak(given["device"])
    with tempfile.TemporaryDirectory() as folder:
        trained = train_encoder(
            step,
            plan.backbones,
            sentences.rows,
            checkpoints=Path(folder) / "checkpoints",
            logs=Path(folder) / "logs",
            vectors={},
            targets=targets,
            progress=False,
        )
    return {"ms": trained.about["milliseconds_per_step"], "peak_bytes": memory.peak(given["device"])}


class LogTimes(TrainerCallback):
    """Notes when each log entry was made, as our own trainer does."""

    def __init__(self) -> None:
        self.times: list[tuple[int, float]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Note step and time."""
        if logs and "loss" in logs:
            self.times.append((state.global_step, time.perf_counter()))

    def step_ms(self) -> float:
        """Return the median time of a step between two entries."""
        pairs = itertools.pairwise(self.times)
        return 1000 * statistics.median((b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs)


def peer_step(given: dict[str, Any], size: str, sentences: list[str]) -> dict[str, Any]:
    """Train as sentence-transformers' SimCSE example does."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    device = given["device"]
    model = load(size, device)
    model.max_seq_length = MAX_LENGTH
    memory.reset_peak(device)
    watch = LogTimes()
    with tempfile.TemporaryDirectory() as folder:
        args = SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=given["max_steps"],
            per_device_train_batch_size=given["batch_size"],
            learning_rate=3e-5,
            fp16=device == "cuda",
            use_cpu=device == "cpu",
            logging_steps=given["logging_steps"],
            logging_first_step=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_num_workers=4 if device == "cuda" else 0,
        )
        trainer = SentenceTransformerTrainer(
            model=model,
            args=args,
            train_dataset=Dataset.from_dict({"anchor": sentences, "positive": sentences}),
            loss=MultipleNegativesRankingLoss(model),
            callbacks=[watch],
        )
        trainer.train()
    return {"ms": watch.step_ms(), "peak_bytes": memory.peak(device)}


def compare_steps(
    device: str, size: str, batch: int, steps: int, rounds: int, references: tuple[int, ...]
) -> dict[str, Any]:
    """Train all kinds in turn, each from scratch, round after round."""
    data, sentences = texts(batch * steps + 1)
    given = settings(size, device, batch, steps)
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        stored = store_sentences(sentences, Path(folder), column=None, progress=False)
        dimension = load(size, "cpu").get_embedding_dimension()
        teacher = random_vectors(len(stored), dimension).astype(np.float16)
        targets = {
            f"stage 2, n = {n:,}": Targets([teacher], [random_vectors(n, dimension)]) for n in references
        }
        for _ in range(rounds):
            found.setdefault(PEER, []).append(peer_step(given, size, sentences))
            found.setdefault("stage 1", []).append(stage_step(given, stored, None))
            for name, target in targets.items():
                found.setdefault(name, []).append(stage_step(given, stored, target))
    ms = {name: [run["ms"] for run in runs] for name, runs in found.items()}
    row: dict[str, Any] = {
        "model": model_folder(size)[0],
        "data": data,
        "B": batch,
        "max_length": MAX_LENGTH,
        "precision": "float16" if device == "cuda" else "float32",
        "steps": steps,
        "rounds": rounds,
    }
    row["kinds"] = {
        name: {
            "ms": statistics.median(times),
            "ratio": ratio(ms[PEER], times),
            "to_stage_1": 1 / ratio(ms["stage 1"], times),
            "peak_bytes": max((run["peak_bytes"] or 0) for run in found[name]) or None,
        }
        for name, times in ms.items()
    }
    return row


def measure(device: str, *, quick: bool) -> list[dict[str, Any]]:
    """Time steps of the sizes that a device is good for."""
    rounds = 1 if quick else 3
    if device == "cpu":
        return [compare_steps(device, "22M", 16, 6 if quick else 12, rounds, (10_000,))]
    steps = 100
    return [
        compare_steps(device, size, 64, steps, rounds, (10_000, 100_000)) for size in ("22M", "BERT-base")
    ]


def step_by_batch(device: str, batches: tuple[int, ...], steps: int) -> list[float]:
    """Return the milliseconds of a step of stage 1, for each batch size."""
    _, sentences = texts(max(batches) * steps + 1)
    with tempfile.TemporaryDirectory() as folder:
        stored = store_sentences(sentences, Path(folder), column=None, progress=False)
        runs = [stage_step(settings("22M", device, batch, steps), stored, None) for batch in batches]
    return [float(run["ms"]) for run in runs]
