"""What the README lists is whole. (That its commands work is tested with the docs', in test_docs.py.)"""

import json
import re
from pathlib import Path
from statistics import fmean

from documents import read

RESULTS = Path(__file__).parents[1] / "results"
STUDENTS = ("encoder-minilm", "minilm-3")


def mean(pattern, *keys):
    """The mean of a value over the raw results whose names fit."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(RESULTS.glob(pattern))]
    assert found, pattern
    for key in keys:
        found = [value[key] for value in found]
    return fmean(found)


def test_figures_are_those_of_the_raw_results():
    text = " ".join(read("README.md").split())
    minilm, taught = (
        mean(f"distill/{n}-[123].json", "scores", "AVG") for n in ("encoder-minilm", "minilm-3")
    )
    assert f"went from {minilm:.1f} to {taught:.1f} on the seven" in text
    assert f"in {mean('distill/minilm-3-timed-1.json', 'seconds', 'distill'):.0f} seconds on one H200" in text
    assert f"A static student scores {mean('distill/static-[123].json', 'scores', 'AVG'):.1f} " in text
    before = mean("runs/untrained/mean-1.json", "scores", "cosine", "AVG")
    best = mean("runs/recipe/best-[123].json", "scores", "E2 cosine", "AVG")
    assert f"a small BERT went from {before:.1f} to {best:.1f} on the seven" in text
    million = mean("runs/speed/bert-base-b512-1m-1.json", "seconds", "train")
    assert f"takes {million:.0f} seconds for a million sentences" in text


def test_the_promise_is_that_of_the_held_out_sets():
    text = " ".join(read("README.md").split())
    cells = [json.loads(file.read_text()) for file in (RESULTS / "thresholds").glob("*-80-chosen.json")]
    looks = [cell["looks"]["120"] for cell in cells if "held out" in cell["set"]]
    given, broken = (fmean(look[key] for look in looks) for key in ("made", "broken"))
    assert (
        f"in {100 * given:.0f}% of the sessions, and {100 * broken / given:.1f}% of these missed it" in text
    )


def test_the_table_of_commands_is_complete():
    from rankencoder.cli import app

    names = {command.callback.__name__ for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    assert names == set(re.findall(r"^\| `rankencoder (\w+)", read("README.md"), flags=re.MULTILINE))
