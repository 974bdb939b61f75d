"""The sections of a report: the answer, with the evidence folded below it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rankencoder.evaluation.results import Result
from rankencoder.evaluation.sts_data import SEVEN
from rankencoder.formatting import NOTHING, clean, listed, number, plural
from rankencoder.report import paper_scores
from rankencoder.report.answer import answer_tiles, find_answer
from rankencoder.report.comparison_blocks import comparison_table, figures, set_tables
from rankencoder.report.document import Block, Cell, Group, NextStep, Section, Table, Tile, Tiles, spread_cell
from rankencoder.report.encoder_views import View, set_order, views

_NAMED = 3  # models in the title
_CANDIDATES = 6  # candidates shown per encoder
_SHORT = 12  # digits of a fingerprint
_COST = (  # what was measured, its title, digits, and scale
    ("model_ms", "encoder, ms", 3, 1),
    ("form_ms", "rank part, ms", 3, 1),
    ("reference_seconds", "reference, s", 1, 1),
    ("form_bytes", "form, MiB", 1, 2**-20),
    ("vector_bytes", "vector, KiB", 1, 2**-10),
)


def report_sections(results: Sequence[Result], *, papers: bool = False) -> tuple[str, list[Section]]:
    """Return the title, and the sections that were measured; the first is the answer."""
    seen = views(results)
    answer = find_answer(seen)
    ordered = [system.view for system in answer.systems] if answer else []
    labels = list(dict.fromkeys(view.label for view in [*ordered, *seen]))
    title = listed(labels if len(labels) <= _NAMED else [*labels[:_NAMED], f"{len(labels) - _NAMED} more"])
    if answer is None:
        nothing = Tile("Use this", "not known", "No pairs were scored.")
        found = [Section("answer", "", "", [Tiles([nothing], NextStep("evaluate"))])]
    else:
        plots = figures(answer)
        opened: list[Block] = [answer_tiles(answer), comparison_table(answer), *plots[:1]]
        more: list[Block] = [*set_tables(answer, seen), *plots[1:]]
        found = [
            Section("answer", "", "", opened),
            Section("sets", "Set by set", "Every similarity on every scored set.", more),
            _choice_section(seen),
        ]
    found += [_cost_section(seen), *([_paper_section()] if papers else []), _origin_section(results)]
    return title, [section for section in found if section.blocks]


def _choice_section(views: Sequence[View]) -> Section:
    """Tabulate the best candidates of each encoder, with their gains over plain cosine."""
    groups, notes = [], []
    for view in views:
        for choice in view.parts("choice")[:1]:
            notes.append(f"{view.name}: {clean(choice['sentence'])}")
            if results := choice.get("results"):
                ordered = sorted(results, key=lambda result: -result["score"])
                shown = [one for i, one in enumerate(ordered) if i < _CANDIDATES or one["rank_weight"] == 0]
                groups.append(Group(f"{view.name}{view.run}", [_candidate(one, choice) for one in shown]))
    lead = "Cosine, ranks and powers of the covariance, chosen by cross-validation on the dev pairs."
    head = ["similarity", "score ×100", "gain over cosine", "folds that chose it"]
    blocks = [Table("The best candidates", head, groups, notes)] if notes else []
    return Section("choice", "Other similarities", lead, blocks)


def _candidate(one: dict[str, Any], choice: dict[str, Any]) -> tuple[str, list[Cell]]:
    value, low, high = (number(100 * one["gain"][key], signed=True) for key in ("value", "low", "high"))
    gain = Cell(NOTHING) if one["rank_weight"] == 0 else Cell(value, f"({low} to {high})")
    is_chosen = one["name"] == choice["chosen"]["name"]
    cells = [Cell(number(100 * one["score"]), best=is_chosen), gain, Cell(str(one["folds"]))]
    return clean(one["name"]), cells


def _cost_section(views: Sequence[View]) -> Section:
    """Tabulate time and memory, by encoder."""
    measured = {view.name: parts for view in views if (parts := view.parts("cost"))}
    shown = [row for row in _COST if any(row[0] in part for parts in measured.values() for part in parts)]
    rows = []
    for name, parts in measured.items():
        where = Cell(f"{clean(parts[0]['device'])}, {plural(parts[0]['threads'], 'thread')}")
        values = (
            ([scale * part[key] for part in parts if key in part], digits) for key, _, digits, scale in shown
        )
        rows.append((name, [where, *(spread_cell(*value) for value in values)]))
    head = ["model", "device", *(title for _, title, _, _ in shown)]
    lead = "Milliseconds per sentence, median of three rounds; other work on the machine slows them."
    tables = [Table("Time and memory", head, [Group("", rows)], words=2)] if rows else []
    return Section("cost", "Cost", lead, tables)


def _paper_section() -> Section:
    """Tabulate the figures that the paper publishes for BERT-base."""
    head = ["", *SEVEN, "AVG"]
    one = [(name, [Cell(f"{value:.2f}") for value in values]) for name, values in paper_scores.STS.items()]
    seeds = [
        (name, [Cell(f"{mean:.1f}", f"± {spread:.1f}") for mean, spread in values])
        for name, values in paper_scores.STS_SEEDS.items()
    ]
    tables = [
        Table("Spearman ×100", head, [Group("", one)]),
        Table("Spearman ×100, three seeds", head, [Group("", seeds)]),
    ]
    lead = f"{paper_scores.SOURCE}. {paper_scores.NOT_COMPARABLE}"
    return Section("papers", "The paper’s figures", lead, tables)


def _origin_section(results: Sequence[Result]) -> Section:
    """Tabulate models, data, commands, software and machine, with their fingerprints."""
    models = ["model", "kind", "evaluated", "path", "encoders and settings"]
    data = ["set", "pairs", "scores", "fingerprint", "source", "notes"]
    tables = [
        Table("Models", models, [Group("", [_model(result) for result in results])], words=-1),
        Table("Data", data, [Group("", _data(results))], words=-1),
        Table("Runs", ["models", "command", "versions and machine"], [Group("", _runs(results))], words=-1),
    ]
    lead = "Fingerprints are hashes of weights, sentences and scores: equal ones mean equal content."
    return Section("origin", "How this was made", lead, tables)


def _row(name: str, *texts: Any) -> tuple[str, list[Cell]]:
    return clean(name), [Cell(clean(text)) for text in texts]


def _model(result: Result) -> tuple[str, list[Cell]]:
    model = result["model"]
    settings = {name: value for name, value in (model.get("config") or {}).items() if value is not None}
    about = [_subject(subject) for subject in model["subjects"]]
    about += [f"settings {json.dumps(settings, ensure_ascii=False)}"] if settings else []
    name = f"{model['label']} ({model['fingerprint'][:8]})"
    return _row(name, model["kind"], result["created"], model["path"], "; ".join(about))


def _subject(subject: dict[str, Any]) -> str:
    text = f"{subject['role']} {subject['encoder']}, fingerprint {subject['fingerprint'][:_SHORT]}"
    if "form" not in subject:
        return text
    settings = ", ".join(f"{key} {value}" for key, value in subject["form"]["settings"].items())
    reference = subject["reference"]
    return (
        f"{text}, {subject['form']['name']} form ({settings or 'no settings'}), rank weight "
        f"{subject['rank_weight']:g}, {reference['size']:,} reference sentences, "
        f"fingerprint {reference['fingerprint'][:_SHORT]}"
    )


def _data(results: Sequence[Result]) -> list[tuple[str, list[Cell]]]:
    """Return a row for each version of each set."""
    rows = {}
    for name in set_order([name for result in results for name in result["data"]]):
        for about in (result["data"][name] for result in results if name in result["data"]):
            mark, (low, high) = about["fingerprint"], about["scale"]
            scores = f"{about['pairs']:,}", f"{low:g} to {high:g}"
            rows[name, mark] = _row(name, *scores, mark[:_SHORT], about["source"], "; ".join(about["notes"]))
    return list(rows.values())


def _runs(results: Sequence[Result]) -> list[tuple[str, list[Cell]]]:
    """Return a row for each command, with its models (and their sections, if several commands made them)."""
    runs: dict[tuple[str, str], list[str]] = {}
    for result in results:
        own: dict[tuple[str, str], list[str]] = {}
        for section, about in (result.get("made") or {"": result}).items():
            versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
            machine = ", ".join(str(value) for value in about["machine"].values())
            own.setdefault((about.get("command") or NOTHING, f"{versions}; {machine}"), []).append(section)
        label = result["model"]["label"]
        for run, sections in own.items():
            runs.setdefault(run, []).append(label if len(own) == 1 else f"{label}: {', '.join(sections)}")
    return [_row(", ".join(names), *run) for run, names in runs.items()]
