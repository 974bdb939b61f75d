"""What it costs, and how it was made: cost, models, data, software, machine, commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rankencoder.evaluation.results import Result
from rankencoder.report.document import Block, Cell, Group, Section, Table, Text
from rankencoder.report.formatting import NOTHING, clean, listed, number, plural
from rankencoder.report.tables_section import missing
from rankencoder.report.views import View, set_order

_SHORT = 12  # digits of a fingerprint
_LATEST = "Of some results only the latest command is known; parts of them may be of earlier ones."


def _milliseconds(value: float) -> str:
    return f"{number(value, 2 if value >= 0.1 else 4)} ms"


def _seconds(value: float) -> str:
    return f"{number(value, 1)} s" if value < 120 else f"{number(value / 60, 1)} min"


def _bytes(value: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{number(value, 0 if unit == 'bytes' else 1)} {unit}"
        value /= 1024
    raise AssertionError


def _count(value: float) -> str:
    return number(value, 0)


_COST: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("model_ms", "the encoder, a sentence", _milliseconds),
    ("form_ms", "its rank part besides, a sentence", _milliseconds),
    ("similarity_ms", "… similarities to the reference alone", _milliseconds),
    ("ranking_ms", "… ranking alone", _milliseconds),
    ("reference_seconds", "encoding the reference corpus, once (estimated)", _seconds),
    ("reference_sentences", "reference sentences", _count),
    ("reference_bytes", "reference vectors", _bytes),
    ("form_bytes", "what the form keeps", _bytes),
    ("vector_bytes", "stored vector of a sentence, both parts", _bytes),
    ("peak_memory_bytes", "peak memory of the evaluation", _bytes),
    ("peak_gpu_bytes", "peak memory on the GPU", _bytes),
)


def cost_section(views: Sequence[View]) -> Section:
    """Return time and memory, by encoder."""
    heading = "What it costs"
    measured = [(view, parts) for view in views if (parts := view.parts("cost"))]
    if not measured:
        return missing("cost", heading, "`rankencoder evaluate MODEL --task cost`")
    rows = []
    for key, title, print_value in _COST:
        found = [[part[key] for part in parts if part.get(key) is not None] for _, parts in measured]
        if any(found):
            rows.append((title, [Cell(print_value(float(np.mean(v)))) if v else Cell("–") for v in found]))
    where = [f"{clean(p[0]['device'])}, {plural(p[0]['threads'], 'thread')}" for _, p in measured]
    rows.append(("measured on", [Cell(text) for text in where]))
    told = []
    for view, parts in measured:
        if "form_ms" in parts[0]:
            model, form = (float(np.mean([part[key] for part in parts])) for key in ("model_ms", "form_ms"))
            share = number(100 * form / model, 0)
            told.append(
                view.tell(
                    f"{view.does('ranks', 'add', 'adds')} {_milliseconds(form)} to the encoder’s "
                    f"{_milliseconds(model)} a sentence ({share}%)."
                )
            )
    notes = ["Medians of three rounds on the sentences of one set; other work on the machine slows them."]
    table = Table("Time and memory", ["", *(view.name for view, _ in measured)], [Group("", rows)], notes)
    lead = "What rank vectors cost on top of the encoder."
    return Section("cost", heading, lead, [table], findings=told)


def origin_section(results: Sequence[Result]) -> Section:
    """Return models, data, software and machine, with the fingerprints that tell them from others."""
    blocks: list[Block] = [_models(results), _data(results), *_commands(results), _software(results)]
    blocks += [Text(text) for text in _differences(results)]
    lead = (
        f"These figures are from {plural(len(results), 'result')} of `rankencoder evaluate`. "
        "Fingerprints are hashes of "
        "weights, sentences and scores: the same fingerprint means the same thing was measured. Again: "
        "`rankencoder evaluate MODEL -o evaluation`, then `rankencoder report evaluation -o report.html`."
    )
    return Section("origin", "How this was made", lead, blocks)


def _models(results: Sequence[Result]) -> Table:
    groups = []
    for result in results:
        model = result["model"]
        rows = [
            ("kind", model["kind"]),
            ("path", model["path"]),
            ("fingerprint", model["fingerprint"][:_SHORT]),
            ("evaluated", result["created"]),
        ]
        rows += [("seed", model["seed"])] if model["seed"] is not None else []
        rows += [(f"{s['role']} encoder".strip(), _subject(s)) for s in model["subjects"]]
        if model.get("config"):
            config = {key: value for key, value in model["config"].items() if value is not None}
            rows.append(("settings", json.dumps(config, ensure_ascii=False, default=str)))
        title = f"{clean(model['label'])} ({model['fingerprint'][:8]})"
        groups.append(Group(title, [(name, [Cell(clean(value))]) for name, value in rows]))
    return Table("Models", ["", ""], groups, words=True)


def _subject(subject: dict[str, Any]) -> str:
    size = f"{subject['dimension']:,} numbers, " if subject.get("dimension") else ""
    told = f"{subject['encoder']}, {size}fingerprint {subject['fingerprint'][:_SHORT]}"
    if "form" in subject:
        settings = ", ".join(f"{key} {value}" for key, value in subject["form"]["settings"].items())
        reference = subject["reference"]
        told += f"; {subject['form']['name']} form ({settings or 'no settings'}), rank weight "
        told += f"{subject['rank_weight']:g}, {reference['size']:,} reference sentences, "
        told += f"fingerprint {reference['fingerprint'][:_SHORT]}"
    return told


def _data(results: Sequence[Result]) -> Table:
    rows: dict[tuple[str, str], list[Cell]] = {}
    names = set_order(list(dict.fromkeys(name for result in results for name in result["data"])))
    for name in names:
        for result in results:
            about = result["data"].get(name)
            if about is not None and (name, about["fingerprint"]) not in rows:
                low, high = about["scale"]
                texts = (f"{about['pairs']:,}", f"{low:g} to {high:g}", about["fingerprint"][:_SHORT])
                notes = "; ".join(about["notes"])
                cells = [Cell(clean(text)) for text in (*texts, about["source"], notes)]
                rows[name, about["fingerprint"]] = cells
    for result in results:
        for name, about in (result.get("transfer") or {}).get("data", {}).items():
            mark, notes = about["fingerprint"], "; ".join(about["notes"])
            line = (NOTHING, NOTHING, mark[:_SHORT], "transfer", notes)
            rows[name, mark] = [Cell(clean(text)) for text in line]
    head = ["set", "pairs", "scores", "fingerprint", "source", "notes"]
    lines = [(clean(name), cells) for (name, _), cells in rows.items()]
    return Table("Data", head, [Group("", lines)], words=True)


def _made(results: Sequence[Result]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield model, section and circumstances; without circumstances of sections, those of the whole."""
    for result in results:
        for section, about in (result.get("made") or {"": result}).items():
            yield clean(result["model"]["label"]), clean(section), about


def _commands(results: Sequence[Result]) -> list[Block]:
    """Return the distinct command lines, each with what it made."""
    found: dict[str, dict[str, list[str]]] = {}
    for label, section, about in _made(results):
        if about.get("command"):
            found.setdefault(clean(about["command"]), {}).setdefault(label, []).append(section)
    if not found:
        return []
    notes = [_LATEST] if any("command" in result and not result.get("made") for result in results) else []
    return [replace(_of_table("Commands", "command", found), notes=notes)]


def _software(results: Sequence[Result]) -> Table:
    found: dict[str, dict[str, list[str]]] = {}
    for label, section, about in _made(results):
        found.setdefault(_circumstances(about), {}).setdefault(label, []).append(section)
    return _of_table("Software and machine", "versions and machine", found)


def _circumstances(about: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about.get("versions", {}).items())
    machine = ", ".join(str(value) for value in about.get("machine", {}).values())
    return clean(f"{versions}; {machine}")


def _of_table(caption: str, what: str, found: dict[str, dict[str, list[str]]]) -> Table:
    """Return a table of texts and what they are of: models, and their sections where not all are alike."""
    lines = []
    for text, models in found.items():
        of = []
        for label, sections in models.items():
            split = sum(label in others for others in found.values()) > 1
            named = list(dict.fromkeys(filter(None, sections)))
            of.append(f"{label}: {', '.join(named)}" if split and named else label)
        lines.append(("; ".join(of), [Cell(text)]))
    return Table(caption, ["of", what], [Group("", lines)], words=True)


def _differences(results: Sequence[Result]) -> list[str]:
    """Say where the sections of one result were not made alike."""
    mixed = []
    for result in results:
        made = [(label, _circumstances(about)) for label, _, about in _made([result])]
        if len(set(made)) > 1:
            mixed.append(f"{made[0][0]} ({result['model']['fingerprint'][:8]})")
    if not mixed:
        return []
    return [
        f"Not all sections of {listed(mixed)} were made with the same versions on the same machine: figures "
        "may differ slightly for that alone."
    ]
