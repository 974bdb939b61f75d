"""What it costs, and how it was made: cost, models, data, commands, software, machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rankencoder.evaluation.results import Result
from rankencoder.report.document import Cell, Group, Section, Table
from rankencoder.report.encoder_views import View, set_order
from rankencoder.report.formatting import NOTHING, clean, number, plural

_SHORT = 12  # digits of a fingerprint


def _milliseconds(value: float) -> str:
    return f"{number(value, 2 if value >= 0.1 else 4)} ms"


def _seconds(value: float) -> str:
    return f"{number(value, 1)} s" if value < 120 else f"{number(value / 60, 1)} min"


def _bytes(value: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024:
            return f"{number(value, 0 if unit == 'bytes' else 1)} {unit}"
        value /= 1024
    return f"{number(value, 1)} GiB"


_COST: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("model_ms", "the encoder, a sentence", _milliseconds),
    ("form_ms", "its rank part besides, a sentence", _milliseconds),
    ("similarity_ms", "… similarities to the reference alone", _milliseconds),
    ("ranking_ms", "… ranking alone", _milliseconds),
    ("reference_seconds", "encoding the reference corpus, once (estimated)", _seconds),
    ("reference_sentences", "reference sentences", lambda value: number(value, 0)),
    ("reference_bytes", "reference vectors", _bytes),
    ("form_bytes", "what the form keeps", _bytes),
    ("vector_bytes", "stored vector of a sentence, both parts", _bytes),
    ("peak_memory_bytes", "peak memory of the evaluation", _bytes),
    ("peak_gpu_bytes", "peak memory on the GPU", _bytes),
)


def cost_section(views: Sequence[View]) -> Section:
    """Tabulate time and memory, by encoder."""
    measured = [(view, parts) for view in views if (parts := view.parts("cost"))]
    if not measured:
        return Section("cost")
    rows, findings = [], []
    for key, title, format_value in _COST:
        found = [_mean(parts, key) for _, parts in measured]
        if any(value is not None for value in found):
            cells = [Cell(NOTHING if value is None else format_value(value)) for value in found]
            rows.append((title, cells))
    where = [f"{clean(p[0]['device'])}, {plural(p[0]['threads'], 'thread')}" for _, p in measured]
    rows.append(("measured on", [Cell(text) for text in where]))
    for view, parts in measured:
        model, form = _mean(parts, "model_ms"), _mean(parts, "form_ms")
        if model and form is not None:
            added = f"{view.does('ranks', 'add', 'adds')} {_milliseconds(form)} to the encoder’s "
            share = f"{_milliseconds(model)} a sentence ({number(100 * form / model, 0)}%)."
            findings.append(view.tell(added + share))
    table = Table("Time and memory", ["", *(view.name for view, _ in measured)], [Group("", rows)])
    return Section("cost", [table], findings)


def _mean(parts: Sequence[dict[str, Any]], key: str) -> float | None:
    """Return the mean over the runs that measured something."""
    found = [part[key] for part in parts if part.get(key) is not None]
    return float(np.mean(found)) if found else None


def origin_section(results: Sequence[Result]) -> Section:
    """Tabulate models, data, commands, software and machine, with their fingerprints."""
    return Section("origin", [_models(results), _data(results), _runs(results)])


def _models(results: Sequence[Result]) -> Table:
    groups = []
    for result in results:
        model, config = result["model"], result["model"].get("config") or {}
        rows = {
            "kind": model["kind"],
            "path": model["path"],
            "fingerprint": model["fingerprint"][:_SHORT],
            "evaluated": result["created"],
            "seed": model["seed"],
            **{f"{one['role']} encoder".strip(): _subject(one) for one in model["subjects"]},
            "settings": json.dumps(
                {key: value for key, value in config.items() if value is not None},
                ensure_ascii=False,
                default=str,
            ),
        }
        shown = [(n, [Cell(clean(value))]) for n, value in rows.items() if value not in (None, "{}")]
        groups.append(Group(f"{clean(model['label'])} ({model['fingerprint'][:8]})", shown))
    return Table("Models", ["", ""], groups, words=True)


def _subject(subject: dict[str, Any]) -> str:
    size = f"{subject['dimension']:,} dimensions, " if subject.get("dimension") else ""
    text = f"{subject['encoder']}, {size}fingerprint {subject['fingerprint'][:_SHORT]}"
    if "form" not in subject:
        return text
    settings = ", ".join(f"{key} {value}" for key, value in subject["form"]["settings"].items())
    reference = subject["reference"]
    return (
        f"{text}; {subject['form']['name']} form ({settings or 'no settings'}), rank weight "
        f"{subject['rank_weight']:g}, {reference['size']:,} reference sentences, "
        f"fingerprint {reference['fingerprint'][:_SHORT]}"
    )


def _data(results: Sequence[Result]) -> Table:
    rows: dict[tuple[str, str], tuple[str, ...]] = {}
    for name in set_order([name for result in results for name in result["data"]]):
        for about in (result["data"][name] for result in results if name in result["data"]):
            low, high = about["scale"]
            scores = (f"{about['pairs']:,}", f"{low:g} to {high:g}")
            rows.setdefault((name, about["fingerprint"]), (*scores, about["source"], *about["notes"]))
    for result in results:
        for name, about in (result.get("transfer") or {}).get("data", {}).items():
            rows[name, about["fingerprint"]] = (NOTHING, NOTHING, "transfer", *about["notes"])
    lines = []
    for (name, mark), (pairs, scale, source, *notes) in rows.items():
        texts = (pairs, scale, mark[:_SHORT], source, "; ".join(notes))
        lines.append((clean(name), [Cell(clean(text)) for text in texts]))
    head = ["set", "pairs", "scores", "fingerprint", "source", "notes"]
    return Table("Data", head, [Group("", lines)], words=True)


def _runs(results: Sequence[Result]) -> Table:
    """Tabulate commands, software and machines, each with the models and sections that were made so."""
    rows: dict[tuple[str, str], list[str]] = {}
    mixed = []
    for result in results:
        made: dict[tuple[str, str], list[str]] = {}
        for section, about in (result.get("made") or {"": result}).items():
            run = clean(about.get("command") or NOTHING), _circumstances(about)
            made.setdefault(run, []).append(clean(section))
        label = clean(result["model"]["label"])
        for run, sections in made.items():
            rows.setdefault(run, []).append(f"{label}: {', '.join(sections)}" if len(made) > 1 else label)
        if len({circumstances for _, circumstances in made}) > 1:
            mixed.append(f"{label} ({result['model']['fingerprint'][:8]})")
    lines = [("; ".join(of), [Cell(text) for text in run]) for run, of in rows.items()]
    note = f"Not all sections of {', '.join(mixed)} were made with the same versions on the same machine: "
    notes = [f"{note}figures may differ slightly for that alone."] if mixed else []
    head = ["of", "command", "versions and machine"]
    return Table("Software and machine", head, [Group("", lines)], notes, words=True)


def _circumstances(about: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about.get("versions", {}).items())
    machine = ", ".join(str(value) for value in about.get("machine", {}).values())
    return clean(f"{versions}; {machine}")
