"""What a billion sentences cost: GPU hours, storage of each form, memory, and how to lay out the run.

All is computed from measured rates, in a JSON file (``benchmarks/results/rates.json``; give your own), and
from sizes that follow from the formats. The page docs/scale.md holds what it prints.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from rankencoder.forms.compact import DIM
from rankencoder.io.storage import read_json
from rankencoder.reference import SIZE
from rankencoder.scale.pieces import PIECE

RATES = Path(__file__).parent / "results" / "rates.json"
FLOAT = 4  # bytes
_CODE = 4  # numbers that the approximate index of search keeps as one byte


def form_dimensions(dimension: int, references: int) -> dict[str, int]:
    """Return how many numbers a sentence has in each form, the encoder's own included.

    >>> form_dimensions(384, 10_000)
    {'plain encoder': 384, 'linear': 768, 'compact': 640, 'exact': 10384}
    """
    rank_part = {"plain encoder": 0, "linear": dimension, "compact": DIM, "exact": references}
    return {name: dimension + numbers for name, numbers in rank_part.items()}


def model_bytes(dimension: int, references: int) -> dict[str, int]:
    """Return what each form holds in memory beside the encoder: reference vectors and what was fitted.

    >>> model_bytes(384, 1_000_000)["compact"]
    2560000000
    """
    vectors = FLOAT * references * dimension
    return {
        "plain encoder": 0,
        "linear": vectors + FLOAT * dimension**2,
        "compact": vectors + FLOAT * references * DIM,
        "exact": vectors,
    }


def size(number: float) -> str:
    """Return bytes for people.

    >>> size(2_560_000_000_000), size(2.56e9), size(33_000_000)
    ('2.6 TB', '2.6 GB', '33 MB')
    """
    unit, name = next(
        (u, n) for u, n in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (0, "B")) if number >= u
    )
    digits = 1 if unit > 1e6 else 0
    return f"{number / (unit or 1):.{digits}f} {name}"


def hours_table(rates: list[dict[str, Any]], sentences: int) -> list[str]:
    """Return what each measured machine would take."""
    lines = [
        "| machine | encoder | sentences/s (measured) | GPU hours | GPUs for one day |",
        "|---|---|---|---|---|",
    ]
    for rate in rates:
        hours = sentences / rate["sentences_per_second"] / 3600
        cells = (rate["machine"], rate["encoder"], f"{rate['sentences_per_second']:,}")
        lines.append(f"| {' | '.join(cells)} | {hours:,.0f} | {math.ceil(hours / 24)} |")
    return lines


def storage_table(sentences: int, dimension: int, references: int, text_bytes: float) -> list[str]:
    """Return what each form takes on disk and in a worker's memory."""
    lines = [
        "| form | dimensions | vectors and text | approximate index | memory per worker |",
        "|---|---|---|---|---|",
    ]
    held = model_bytes(dimension, references)
    for form, numbers in form_dimensions(dimension, references).items():
        stored = sentences * (FLOAT * numbers + text_bytes)
        lines.append(
            f"| {form} | {numbers:,} | {size(stored)} | {size(sentences * numbers / _CODE)} | "
            f"{size(held[form]) if held[form] else '–'} |"
        )
    return lines


def layout(sentences: int, dimension: int, rate: dict[str, Any], text_bytes: float) -> list[str]:
    """Return how the run is laid out, in the compact form."""
    numbers = dimension + DIM
    piece = PIECE * (FLOAT * numbers + text_bytes)
    per_second = rate["sentences_per_second"]
    written = per_second * (FLOAT * numbers + text_bytes)
    read = per_second * text_bytes
    return [
        f"- {math.ceil(sentences / PIECE):,} files of {PIECE:,} sentences, {size(piece)} each;",
        f"- {size(sentences * text_bytes)} of text to read: {size(read)} per second and GPU;",
        f"- {size(written)} per second and GPU to write: 8 GPUs write {8 * written / 1e9 * 8:.1f} Gbit/s;",
        f"- a lost worker costs its current file, up to {PIECE / per_second:.0f} s, and its startup.",
    ]


def page(rates: dict[str, Any], sentences: int, dimension: int, references: int) -> str:
    """Return all of it as Markdown."""
    text_bytes = float(rates["text_bytes"])
    parts = (
        hours_table(rates["rates"], sentences),
        storage_table(sentences, dimension, references, text_bytes),
        layout(sentences, dimension, rates["rates"][0], text_bytes),
    )
    return "\n\n".join("\n".join(part) for part in parts)


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rates", type=Path, nargs="?", default=RATES)
    parser.add_argument("--sentences", type=float, default=1e9)
    parser.add_argument("--dimension", type=int, help="of the encoder (by default the first rate's)")
    parser.add_argument("--references", type=int, default=SIZE)
    options = parser.parse_args()
    rates = read_json(options.rates)
    dimension = options.dimension or int(rates["rates"][0]["dimension"])
    print(page(rates, int(options.sentences), dimension, options.references))


if __name__ == "__main__":
    main()
