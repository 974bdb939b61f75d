"""What it costs, and how it was made: cost, models, data, software, machine, commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rankencoder.evaluation.results import Result
from rankencoder.report.document import NOTHING, Block, Cell, Group, Section, Table, clean, number, plural
from rankencoder.report.tables import missing
from rankencoder.report.views import View, set_order

_SHORT = 12  # digits of a fingerprint


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
    blocks: list[Block] = [_models(results), _data(results), _software(results)]
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


def _software(results: Sequence[Result]) -> Table:
    rows: dict[str, list[Cell]] = {}
    for result in results:
        versions = ", ".join(f"{name} {version}" for name, version in result.get("versions", {}).items())
        machine = ", ".join(str(value) for value in result.get("machine", {}).values())
        text = clean(f"{versions}; {machine}")
        rows.setdefault(text, []).append(Cell(clean(result["model"]["label"])))
    lines = [
        (", ".join(dict.fromkeys(cell.text for cell in cells)), [Cell(text)]) for text, cells in rows.items()
    ]
    return Table("Software and machine", ["of", "versions and machine"], [Group("", lines)], words=True)
