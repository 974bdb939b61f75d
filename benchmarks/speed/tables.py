"""What was measured, as Markdown: for the terminal and for ``docs/speed.md``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pages import MISSING, replaced, table

from speed.goals import GOALS, Result

NAMES = {"cpu": "CPU", "cuda": "GPU"}
PICTURE = "Time and peak memory against sentences on log axes, with exponents"


def number(value: float | None) -> str:
    """Return a figure with three digits; a dash for none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def times(ratio: float | None) -> str:
    """Return a ratio of times."""
    return "–" if ratio is None else f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×"


def size(count: int | None) -> str:
    """Return bytes as people say them."""
    if count is None:
        return "–"
    for unit, bound in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= bound:
            return f"{count / bound:.2f} {unit}"
    return f"{count} B"


def machine_line(result: Result) -> str:
    """Say which machine it was, and its floors."""
    found, versions = result["machine"], result["machine"]["versions"]
    gpu = f", {found['gpu']}" if found["gpu"] else ""
    names = ", ".join(f"{name} {versions[name]}" for name in ("torch", "sentence-transformers", "numpy"))
    floors = "; ".join(
        f"{NAMES[device]}: copies {rates['bytes_per_second'] / 1e9:.3g} GB/s, float32 products "
        f"{rates['flops_per_second'] / 1e9:,.0f} GFLOP/s"
        + (
            f", float16 {rates['half_flops_per_second'] / 1e9:,.0f} GFLOP/s"
            if "half_flops_per_second" in rates
            else ""
        )
        for device, rates in found["floors"].items()
    )
    quick = " A quick run: for a first look." if result["quick"] else ""
    quick += " Processor time of one thread, since others used the machine too." if result["busy"] else ""
    return (
        f"{found['processor']}, {found['threads']} threads{gpu}; {names}; load average before the run "
        f"{found['load_average_before']}. {floors}.{quick}"
    )


def ranking(rows: list[Result]) -> str:
    """Peer time / our time at each size."""
    peers = list(dict.fromkeys(name for row in rows for name in row["peers"]))
    head = ["B", "n", "ours, ms", *peers, "bytes' floor, ms", "largest error"]
    cells = []
    for row in rows:
        ratios = [times(row["peers"].get(name, {}).get("ratio")) for name in peers]
        error = f"{row['error']:.0e}" if "error" in row else "–"
        b = f"{row['B']}, correlated" if row.get("correlated") else str(row["B"])
        cells.append([b, f"{row['n']:,}", number(row["ms"]), *ratios, number(row.get("floor_ms")), error])
    return table(head, cells)


def backends(rows: list[Result]) -> str:
    """Rates beside the peers', one table for each kind of model, and what was left out."""
    parts = []
    for row in rows:
        is_start = row["what"] == "start"
        unit = "seconds" if is_start else "sentences/s"
        cells = [
            [
                name,
                number(found["seconds" if is_start else "sentences_per_second"]),
                times(found["ratio"]),
                f"{found['fidelity']:.5f}" if "fidelity" in found else "–",
            ]
            for name, found in row["rows"].items()
        ]
        left_out = [f"Left out: {name} ({why})." for name, why in row["skipped"].items()]
        head = [row["what"], unit, f"to {row['peer']}", "fidelity"]
        parts.append("\n\n".join([table(head, cells), *left_out]))
    return "\n\n".join(parts)


def encoding(rows: list[Result]) -> str:
    """Encoders, then what the rank part adds to each."""
    head = [
        "model",
        "precision",
        "data",
        "tokens",
        "sentences/s",
        "SentenceTransformer.encode",
        "RankEncoder.encode",
    ]
    cells, parts = [], []
    for row in rows:
        ratios = [times(peer["ratio"]) for peer in row["peers"].values()]
        about = [f"{row['sentences']:,} {row['data']}", f"{row['mean_tokens']:.0f}"]
        cells.append([row["model"], row["precision"], *about, number(row["sentences_per_second"]), *ratios])
        for part in row["rank_parts"]:
            share = f"{100 * part['overhead']:.2f}%" if "overhead" in part else "–"
            each = number(1000 * part["ms"] / row["sentences"]) if "ms" in part else "–"
            of = [row["model"], row["precision"], part["form"], f"{part['n']:,}"]
            parts.append([*of, each, share, size(part["bytes_per_sentence"])])
    names = ["model", "precision", "form", "n", "µs a sentence", "of the encoder's time", "a stored sentence"]
    return f"{table(head, cells)}\n\n{table(names, parts)}"


def training(rows: list[Result]) -> str:
    """Steps of each kind."""
    head = ["model", "B", "kind", "ms a step", "peer time / its time", "to stage 1", "peak memory"]
    cells = [
        [
            row["model"],
            str(row["B"]),
            name,
            number(kind["ms"]),
            times(kind["ratio"]),
            f"{kind['to_stage_1']:.3f}",
            size(kind["peak_bytes"]),
        ]
        for row in rows
        for name, kind in row["kinds"].items()
    ]
    return table(head, cells)


def evaluation(rows: list[Result]) -> str:
    """Naive loop time / our time."""
    head = ["what", "ours, s", "naive loop, s", "ratio", "largest difference of a score"]
    cells = []
    for row in rows:
        peer = row["peers"]["naive loop"]
        figures = [number(row["ms"] / 1000), number(peer["ms"] / 1000), times(peer["ratio"])]
        cells.append([row["what"], *figures, f"{row['difference']:.0e}"])
    return table(head, cells)


def growth(rows: list[Result]) -> str:
    """Fitted exponents."""
    head = [
        "what",
        "by",
        "from",
        "to",
        "time from",
        "time to",
        "exponent",
        "of the last two sizes",
        "peak memory",
    ]
    cells = [
        [
            row["what"],
            row["x"],
            *(f"{row['sizes'][i]:,}" for i in (0, -1)),
            *(f"{number(row['ms'][i])} ms" for i in (0, -1)),
            f"{row['exponent']:.2f}",
            f"{row['last_exponent']:.2f}",
            " to ".join(size(row["peak_bytes"][i]) for i in (0, -1)) if "peak_bytes" in row else "–",
        ]
        for row in rows
    ]
    return table(head, cells)


SECTIONS: dict[str, Any] = {
    "backends": backends,
    "ranking": ranking,
    "encoding": encoding,
    "training": training,
    "evaluation": evaluation,
    "growth": growth,
}


def section(name: str, device: str, rows: list[Result]) -> str:
    """Return one section on one device."""
    return f"**{name.capitalize()}, {NAMES[device]}**\n\n{SECTIONS[name](rows)}"


def goals(results: list[Result]) -> str:
    """Return every goal with what was measured."""
    cells = []
    for goal in GOALS:
        found = [row for result in results for row in goal.rows(result)]
        ask = f"{goal.side} {goal.bound:g}"
        for where, value, reached in found:
            verdict = "reached" if reached else "**missed**"
            cells.append([goal.text, NAMES[goal.device], where, ask, f"{value:.3g}", verdict])
        if not found:
            cells.append([goal.text, NAMES[goal.device], "–", ask, "not measured", "–"])
    return table(["goal", "on", "with", "asked for", "measured", ""], cells)


def write_page(results: list[Result], path: Path) -> None:
    """Put all tables between the marks of a page."""
    made = {"goals": goals(results), "machines": "\n".join(f"- {machine_line(r)}" for r in results)}
    for name in SECTIONS:
        parts = [
            section(name, device, found)
            for result in results
            for device, found in result["sections"].get(name, {}).items()
        ]
        made[name] = "\n\n".join(parts) or MISSING
    pictures = dict.fromkeys(d for result in results for d in result["sections"].get("growth", {}))
    made["growth"] += "".join(f"\n\n![{PICTURE}](images/growth-{device}.svg)" for device in pictures)
    path.write_text(replaced(path.read_text(), made))
