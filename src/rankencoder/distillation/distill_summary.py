"""Summarize a finished distillation: a few lines, and the student's model card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankencoder.encoder_sources import split_prompt
from rankencoder.model_card import ModelCard, short_name


def is_nearer(record: dict[str, Any]) -> bool:
    """Return whether a student ended nearer to its teachers than it began, by more than chance."""
    agreement = record["agreement"]
    return bool(agreement["after"]["spearman"] - agreement["before"]["spearman"] > agreement["noise"])


def describe_agreement(record: dict[str, Any]) -> str:
    """Return how much nearer a student came to its teachers, or that the start is kept."""
    agreement = record["agreement"]
    before, after = agreement["before"], agreement.get("taught", agreement["after"])
    gain = after["spearman"] - before["spearman"]
    verdict = "no nearer to its teachers"
    if abs(gain) > agreement["noise"]:
        way = "nearer to" if gain > 0 else "further from"
        verdict = f"{way} its teachers by {100 * abs(gain):.1f} points"
    if "taught" in agreement:
        verdict += ", so the start is kept"
    return (
        f"{verdict}: correlation of similarities {100 * before['spearman']:.1f} -> "
        f"{100 * after['spearman']:.1f}, shared nearest neighbors {before['recall']:.0%} -> "
        f"{after['recall']:.0%} ({record['held_out']:,} held-out sentences)"
    )


def describe_distillation(record: dict[str, Any]) -> list[str]:
    """Return the outcome of a distillation, one line per kind of evidence."""
    lines = [describe_agreement(record), _speed(record)]
    if "dev" in record:
        lines.append(_dev_gain(record))
    if "space" in record:
        lines.append(
            f"in the space of {short_name(record['teachers'][0]['name'])}: its queries find "
            f"{record['space']['recall']:.0%} of the 10 nearest neighbors that the teacher's own find"
        )
    return lines


def _speed(record: dict[str, Any]) -> str:
    """Return speed and size of a student, and of the first teacher that ran here."""
    speed = record["sentences_per_second"]
    own = f"{speed:,.0f} sentences/s, {record['student']['megabytes']:,.1f} MB"
    first = next((one for one in record["teachers"] if "sentences_per_second" in one), None)
    if record["student"]["kind"] == "encoder" or first is None:
        return own
    times = speed / max(first["sentences_per_second"], 1e-9)
    return (
        f"{own}; {short_name(first['name'])}: {first['sentences_per_second']:,.0f} sentences/s, "
        f"{first['megabytes']:,.1f} MB ({times:,.1f} times as fast)"
    )


def _dev_gain(record: dict[str, Any]) -> str:
    """Return the scores on labeled pairs."""
    dev = record["dev"]
    low, high = dev["interval"]
    gain = f"{100 * dev['gain']:+.2f}, 95% interval {100 * low:+.2f} to {100 * high:+.2f}"
    if (record["stage"]["best"] or {}).get("step") == 0:
        gain = "nothing better was found: the start is kept"
    return f"dev pairs, {dev['metric']}: {100 * dev['before']:.2f} -> {100 * dev['after']:.2f} ({gain})"


def write_card(folder: Path, record: dict[str, Any]) -> None:
    """Write the model card of a student. It gives only the name, size and digest of the text."""
    config, corpus = record["config"], record["corpus"]
    names = [short_name(teacher["name"]) for teacher in record["teachers"]]
    weights = config["weight"] or [1] * len(names)
    teachers = [
        f"`{name}`{_prompt(teacher['name'])}, weight {weight / sum(weights):.3g}"
        for name, teacher, weight in zip(names, record["teachers"], weights, strict=True)
    ]
    student = short_name(config["student"])
    layers = f", {config['layers']} layers kept" if config["layers"] else ""
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
