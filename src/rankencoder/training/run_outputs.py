"""Write the encoders, model cards and record of a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankencoder.io.manifest import folder_entries
from rankencoder.io.storage import RUN, new_file, new_folder, write_json
from rankencoder.model_card import ModelCard, short_name
from rankencoder.provenance import provenance
from rankencoder.training.config import TrainConfig
from rankencoder.training.loop.stage import StageResult, describe_choice
from rankencoder.training.plan import TrainEncoder
from rankencoder.training.run_settings import RunSettings
from rankencoder.training.sentences import Sentences

PICTURE = "losses.svg"


def save_encoder(
    trained: StageResult, folder: Path, about: Path, config: TrainConfig, sentences: Sentences
) -> None:
    """Write an encoder with its model card, and before that its part of the record."""
    # truncation and padding are those of the last batch, which a resumed stage lacks
    backend = trained.model.tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    with new_folder(folder) as new:
        trained.model.save_pretrained(str(new), create_model_card=False)
        _make_card(trained, config, sentences).write(new)
        with new_file(about) as path:
            write_json(path, {**trained.about, "files": folder_entries(new)})


def _make_card(trained: StageResult, config: TrainConfig, sentences: Sentences) -> ModelCard:
    """Describe data by name and size (never its text), loss, settings and citations."""
    loss: Any = trained.loss
    backbone = short_name(config.backbone)
    text = Path(config.corpus).name if config.corpus else "sentences given in memory"
    settings = ", ".join(f"{key} {_nameless(value)}" for key, value in loss.get_config_dict().items())
    return ModelCard(
        title=f"{backbone} trained with {config.method}",
        about=f"A sentence encoder trained on unlabeled text, from {backbone}.",
        figures=[line] if (line := describe_choice(trained.about)) else [],
        recipe={
            "backbone": f"`{backbone}`",
            "method": config.method,
            "loss": f"{type(loss).__name__} ({settings})",
            "text": f"{text}: {len(sentences):,} sentences (SHA-256 {sentences.sha256[:16]}…)",
            "training": f"batches of {config.batch_size}, learning rate {config.learning_rate:g}, "
            f"{config.max_length} tokens, seed {config.seed}",
        },
        sources=[backbone, "the text it was trained on"],
        bases=[config.backbone],
        tags=["sentence-similarity", "unsupervised", config.method],
        citation=loss.citation,
    )


def _nameless(value: Any) -> Any:
    """Return a setting without this machine's folders."""
    if isinstance(value, dict):
        return {key: _nameless(inner) for key, inner in value.items()}
    return short_name(value) if isinstance(value, str) and Path(value).is_absolute() else value


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write the machine-readable record of a run."""
    with new_file(folder / RUN) as path:
        write_json(path, record)


def rank_share(history: list[dict[str, Any]]) -> float | None:
    """Return the share of stage 2's log entries in which the rank loss is the larger part of Eq. 6.

    >>> rank_share([{"contrastive": 0.2}, {"contrastive": 0.2, "weighted_rank": 0.3}])
    1.0
    """
    entries = [entry for entry in history if "weighted_rank" in entry]
    larger = [entry for entry in entries if entry["weighted_rank"] > entry["contrastive"]]
    return len(larger) / len(entries) if entries else None


def new_record(config: RunSettings, sentences: Sentences) -> dict[str, Any]:
    """Return the record of a new run."""
    return {
        "format": 1,
        "finished": False,
        "config": config.model_dump(),
        **provenance(),
        "corpus": {"path": config.corpus or None, "sha256": sentences.sha256, **sentences.counts},
    }


def close_record(
    record: dict[str, Any], stages: list[tuple[TrainEncoder, dict[str, Any]]], timings: dict[str, float]
) -> list[dict[str, Any]]:
    """Complete the record of a run with its trainings; return the history of its own stages."""
    own, history = [], []
    for step, about in stages:
        del about["files"]
        logged = [{"stage": step.stage, **entry} for entry in about.pop("history")]
        about = {"stage": step.stage, **about}
        if step.output.startswith("teachers/"):
            taught = {"config": step.config.model_dump(), "stages": [about]}
            record.setdefault("teachers", {})[step.config.method] = taught
        else:
            own.append(about)
            history += logged
    record.update(
        finished=True,
        stages=own,
        seconds={name: round(seconds, 3) for name, seconds in timings.items()},
        rank_larger=rank_share(history),
        history=history,
    )
    return history
