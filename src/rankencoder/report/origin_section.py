"""How the figures were made: models, data, commands, software, machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rankencoder.evaluation.results import Result
from rankencoder.formatting import NOTHING, clean
from rankencoder.report.document import Cell, Group, Section, Table
from rankencoder.report.encoder_views import set_order

_SHORT = 12  # digits of a fingerprint


def origin_section(results: Sequence[Result]) -> Section:
    """Tabulate models, data, commands, software and machine, with their fingerprints."""
    data = [_row(name, *texts) for (name, _), texts in _data(results).items()]
    runs = [row for result in results for row in _runs(result)]
    head = ["set", "pairs", "scores", "fingerprint", "source", "notes"]
    return Section(
        "origin",
        "How this was made",
        "Fingerprints are hashes of weights, sentences and scores: equal ones mean the same thing.",
        [
            Table("Models", ["", ""], [_model(result) for result in results], words=-1),
            Table("Data", head, [Group("", data)], words=-1),
            Table("Runs", ["of", "command", "versions and machine"], [Group("", runs)], words=-1),
        ],
    )


def _row(name: str, *texts: Any) -> tuple[str, list[Cell]]:
    return clean(name), [Cell(clean(text)) for text in texts]


def _model(result: Result) -> Group:
    model = result["model"]
    settings = {name: value for name, value in (model.get("config") or {}).items() if value is not None}
    rows = {
        "kind": model["kind"],
        "path": model["path"],
        "fingerprint": model["fingerprint"][:_SHORT],
        "evaluated": result["created"],
        "seed": model["seed"],
        **{f"{subject['role']} encoder".strip(): _subject(subject) for subject in model["subjects"]},
        "settings": json.dumps(settings, ensure_ascii=False) if settings else None,
    }
    shown = [_row(name, value) for name, value in rows.items() if value is not None]
    return Group(f"{clean(model['label'])} ({model['fingerprint'][:8]})", shown)


def _subject(subject: dict[str, Any]) -> str:
    text = f"{subject['encoder']}, fingerprint {subject['fingerprint'][:_SHORT]}"
    if "form" not in subject:
        return text
    settings = ", ".join(f"{key} {value}" for key, value in subject["form"]["settings"].items())
    reference = subject["reference"]
    return (
        f"{text}; {subject['form']['name']} form ({settings or 'no settings'}), rank weight "
        f"{subject['rank_weight']:g}, {reference['size']:,} reference sentences, "
        f"fingerprint {reference['fingerprint'][:_SHORT]}"
    )


def _data(results: Sequence[Result]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return about each version of each set: pairs, scores, fingerprint, source, notes."""
    rows: dict[tuple[str, str], tuple[str, ...]] = {}
    for name in set_order([name for result in results for name in result["data"]]):
        for about in (result["data"][name] for result in results if name in result["data"]):
            mark, (low, high) = about["fingerprint"], about["scale"]
            scores = f"{about['pairs']:,}", f"{low:g} to {high:g}"
            rows[name, mark] = (*scores, mark[:_SHORT], about["source"], "; ".join(about["notes"]))
    return rows


def _runs(result: Result) -> list[tuple[str, list[Cell]]]:
    """Return a row for each command, with the sections that it measured."""
    runs: dict[tuple[str, str], list[str]] = {}
    for section, about in (result.get("made") or {"": result}).items():
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        machine = ", ".join(str(value) for value in about["machine"].values())
        runs.setdefault((about.get("command") or NOTHING, f"{versions}; {machine}"), []).append(section)
    label = result["model"]["label"]
    if len(runs) == 1:
        return [_row(label, *run) for run in runs]
    return [_row(f"{label}: {', '.join(sections)}", *run) for run, sections in runs.items()]
