"""Summarize a finished distillation in a few lines."""

from __future__ import annotations

from typing import Any

from rankencoder.model_card import short_name


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
        verdict = (
            f"{'nearer to' if gain > 0 else 'further from'} its teachers by {100 * abs(gain):.1f} points"
        )
    if "taught" in agreement:
        verdict += ", so the start is kept"
    return (
        f"{verdict}: correlation of similarities {100 * before['spearman']:.1f} -> "
        f"{100 * after['spearman']:.1f}, shared nearest neighbors {before['recall']:.0%} -> "
        f"{after['recall']:.0%} ({record['held_out']:,} held-out sentences)"
    )


def describe_speed(record: dict[str, Any]) -> str:
    """Return speed and size of a student, beside those of its first teacher that runs here."""
    speed, size = record["sentences_per_second"], record["student"]["megabytes"]
    own = f"{speed:,.0f} sentences/s, {size:,.1f} MB"
    teachers = [teacher for teacher in record["teachers"] if "sentences_per_second" in teacher]
    if record["student"]["kind"] == "encoder" or not teachers:
        return own
    first = teachers[0]
    times = speed / max(first["sentences_per_second"], 1e-9)
    return (
        f"{own}; {short_name(first['name'])}: {first['sentences_per_second']:,.0f} sentences/s, "
        f"{first['megabytes']:,.1f} MB ({times:,.1f} times as fast)"
    )


def describe_dev(record: dict[str, Any]) -> str:
    """Return what labeled pairs say."""
    dev = record["dev"]
    low, high = dev["interval"]
    gain = f"{100 * dev['gain']:+.2f}, 95% interval {100 * low:+.2f} to {100 * high:+.2f}"
    if (record["stage"]["best"] or {}).get("step") == 0:
        gain = "nothing better was found: the start is kept"
    return f"dev pairs, {dev['metric']}: {100 * dev['before']:.2f} -> {100 * dev['after']:.2f} ({gain})"


def describe_distillation(record: dict[str, Any]) -> list[str]:
    """Return what a distillation came to, a line for each kind of evidence."""
    lines = [describe_agreement(record), describe_speed(record)]
    if "dev" in record:
        lines.append(describe_dev(record))
    if "space" in record:
        lines.append(
            f"in the space of {short_name(record['teachers'][0]['name'])}: its queries find "
            f"{record['space']['recall']:.0%} of the 10 nearest neighbors that the teacher's own find"
        )
    return lines
