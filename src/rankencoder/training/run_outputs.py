"""Write the encoders, model cards and record of a training."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import indent
from typing import Any

from rankencoder.io.storage import RUN, new_file, new_folder, write_json
from rankencoder.provenance import provenance
from rankencoder.training.config import TrainConfig
from rankencoder.training.loop.stage import StageResult
from rankencoder.training.plan import TrainEncoder
from rankencoder.training.run_settings import RunSettings
from rankencoder.training.sentences import Sentences

PICTURE = "losses.svg"


def save_encoder(trained: StageResult, folder: Path, config: TrainConfig, sentences: Sentences) -> None:
    """Write an encoder with its model card, whole or not at all."""
    _fill_card(trained.model.model_card_data, trained.loss, config, sentences)
    # how the last batch was cut and filled up is not saved: a resumed stage had another one
    backend = trained.model.tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    with new_folder(folder) as new:
        trained.model.save_pretrained(str(new))


def _fill_card(card: Any, loss: Any, config: TrainConfig, sentences: Sentences) -> None:
    """Describe data by name and size (never its text), loss, settings and citations."""
    card.generate_widget_examples = False
    card.local_files_only = True  # what the base model is we know
    card.add_tags(["rankencoder", "unsupervised", config.method])
    if not Path(config.backbone).exists():
        card.base_model, card.base_model_revision = config.backbone, config.revision
    card.set_losses([loss])
    name = Path(config.corpus).name if config.corpus else "sentences given in memory"
    code = json.dumps(loss.get_config_dict(), indent=4)
    card.train_datasets = [
        {
            "name": f"{name} (SHA-256 of the sentences {sentences.sha256[:16]}…)",
            "size": len(sentences),
            "columns": ["<code>text</code>"],
            "loss": {
                "fullname": f"{type(loss).__module__}.{type(loss).__qualname__}",
                "config_code": f"  ```json\n{indent(code, '  ')}\n  ```",
            },
        }
    ]


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write the machine-readable record of a run."""
    with new_file(folder / RUN) as path:
        write_json(path, record)


def rank_share(history: list[dict[str, Any]]) -> float | None:
    """Return in how many log entries of stage 2 the rank loss was the larger part of Eq. 6.

    >>> rank_share([{"contrastive": 0.2}, {"contrastive": 0.2, "weighted_rank": 0.3}])
    1.0
    """
    entries = [entry for entry in history if "weighted_rank" in entry]
    larger = [entry for entry in entries if entry["weighted_rank"] > entry["contrastive"]]
    return len(larger) / len(entries) if entries else None


def new_record(config: RunSettings, sentences: Sentences) -> dict[str, Any]:
    """Return the record of a run that has only begun."""
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
    """Complete the record of a run with its trainings; return the history of its own losses."""
    own, history = [], []
    for step, about in stages:
        about.pop("files", None)
        logged = [{"stage": step.number, **entry} for entry in about.pop("history")]
        about = {"stage": step.number, **about}
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
