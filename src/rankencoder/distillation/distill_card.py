"""Write the model card of a student."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankencoder.distillation.distill_summary import describe_distillation
from rankencoder.encoder_sources import split_prompt
from rankencoder.model_card import ModelCard, short_name


def write_card(folder: Path, record: dict[str, Any]) -> None:
    """Write the model card of a finished distillation; of the text it has name, size and digest alone."""
    config = record["config"]
    names = [short_name(teacher["name"]) for teacher in record["teachers"]]
    weights = config["weight"] or [1] * len(names)
    teachers = [
        f"`{short_name(teacher['name'])}`{_prompt(teacher['name'])}, weight {weight / sum(weights):.3g}"
        for teacher, weight in zip(record["teachers"], weights, strict=True)
    ]
    student = short_name(config["student"])
    layers = f", {config['layers']} layers kept" if config["layers"] else ""
    corpus = record["corpus"]
    text = Path(corpus["path"]).name if corpus["path"] else "sentences given in memory"
    shown = " and ".join(", ".join(names).rsplit(", ", 1))
    ModelCard(
        title=f"{student} taught by {shown}",
        about=f"A sentence encoder that learned the similarities of {shown} on unlabeled text.",
        figures=describe_distillation(record),
        recipe={
            "student": f"`{student}`{_prompt(config['student'])}{layers}",
            "dimensions": f"{record['student']['dimension']:,}",
            "teachers": "; ".join(teachers),
            "text": f"{text}: {corpus['sentences']:,} sentences (SHA-256 {corpus['sha256'][:16]}…)",
            "target": config["target"],
            "training": f"{record['stage']['steps']:,} steps, batches of {config['batch_size']}, "
            f"learning rate {config['learning_rate']:g}, {config['max_length']} tokens, "
            f"seed {config['seed']}",
            "vector space": "the first teacher's" if config["space"] == "teacher" else "its own",
        },
        limits=["Agreement is with the teachers, on held-out text. It does not say how good they are."],
        sources=[*dict.fromkeys([student, *names]), "the text it was trained on"],
        bases=[config["student"]],
        tags=["sentence-similarity", "distillation"],
    ).write(folder)


def _prompt(name: str) -> str:
    prompt = split_prompt(name)[1]
    return f" with the prompt `{prompt}`" if prompt else ""
