"""Time everything against named peers of the same run: ``make bench``.

The CPU by itself, the GPU where there is one.

::

    python benchmarks/bench.py --only ranking encoding --quick
    python benchmarks/bench.py --only growth --devices cpu --distill 1000000 --json growth.json  # an hour
    python benchmarks/bench.py --devices cuda --json bench-h200.json   # needs no data and no weights
    python benchmarks/bench.py --tables benchmarks/results/bench-*.json   # makes docs/speed.md of them
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from speed import backends, encoding, evaluation, growth, machine, ranking, tables, timing, training

SECTIONS = ("backends", "ranking", "encoding", "training", "evaluation", "growth")
ROOT = Path(__file__).parents[1]


def measure(section: str, device: str, floors: dict[str, float], options: argparse.Namespace) -> Any:
    """Return what a section finds on a device; None where it has nothing to measure there."""
    quick = options.quick
    if section == "ranking":
        return ranking.measure(device, floors["bytes_per_second"], quick=quick)
    if section == "growth":
        return growth.measure(device, quick=quick, largest_distillation=options.distill)
    works = {"backends": backends, "encoding": encoding, "training": training, "evaluation": evaluation}
    return works[section].measure(device, quick=quick)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the sections that were asked for, printing each as it is done."""
    if options.busy:
        timing.use_processor_time()
    devices = options.devices or ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    result: dict[str, Any] = {"quick": options.quick, "busy": options.busy}
    result |= {"machine": machine.describe(devices), "sections": {}}
    print(tables.machine_line(result), flush=True)
    for section in options.only or SECTIONS:
        for device in devices:
            began = time.perf_counter()
            rows: list[Any] = []
            for row in measure(section, device, result["machine"]["floors"][device], options) or ():
                rows.append(row)
                result["sections"].setdefault(section, {})[device] = rows
                if options.json:  # with what there is so far
                    options.json.write_text(json.dumps(result, indent=1) + "\n")
            if rows:
                print("\n" + tables.section(section, device, rows), flush=True)
                print(f"({section}, {device}: {time.perf_counter() - began:.0f} s)", flush=True)
    print("\n" + tables.goals([result]))
    return result


def main() -> None:
    """Measure, or make the page of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and sizes, for a first look")
    parser.add_argument(
        "--busy",
        action="store_true",
        help="processor time of one thread in place of the clock: for a CPU that others use, too\n"
        "(not for training steps, which are always timed by the clock)",
    )
    parser.add_argument("--devices", nargs="+", choices=("cpu", "cuda"))
    parser.add_argument(
        "--distill", type=int, default=100_000, help="largest corpus to distill on in the section growth"
    )
    parser.add_argument("--json", type=Path, help="write the results to this file, section by section")
    parser.add_argument("--tables", nargs="+", type=Path, help="make docs/speed.md of these results instead")
    options = parser.parse_args()
    if options.tables:
        from speed import plots  # matplotlib, which a machine that only measures may lack

        results = [json.loads(path.read_text()) for path in options.tables]
        plots.draw_growth(results, ROOT / "docs/images")
        tables.write_page(results, ROOT / "docs/speed.md")
    else:
        run(options)


if __name__ == "__main__":
    main()
