"""Thirty of the cases of `make faults`, in a process of their own, which forks."""

import json
import sys
from pathlib import Path

import pytest
import warm

ROOT = Path(__file__).parents[1]
CASES = [
    *(
        f"kill:{name}:{number}:0"
        for name, number in (("build", 5), ("encode", 3), ("train", 0), ("train", 2))
    ),
    *(f"kill:{name}:{number}:0" for name, number in (("index", 0), ("evaluate", 6))),
    *(f"disk:{name}:0:0" for name in ("build", "encode", "train", "index", "evaluate")),
    *(f"unreadable:{name}:2:0" for name in ("build", "encode", "index")),
    *(f"unreadable:{name}:3:0" for name in ("train", "evaluate")),
    *(f"truncate:model:{number}:0" for number in (3, 9)),
    *(f"flip:model:{number}:0" for number in (2, 6, 11)),
    *(f"truncate:index:{number}:0" for number in (0, 12)),
    *(f"{kind}:vectors:0:0" for kind in ("truncate", "flip")),
    *(f"{kind}:evaluation:0:0" for kind in ("truncate", "flip")),
    *(f"{kind}:cache:0:0" for kind in ("truncate", "flip")),
    "truncate:begun encode:2:0",
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """How the cases ended."""
    pytest.importorskip("lancedb", reason="needs LanceDB: pip install 'rankencoder[search]'")
    file = tmp_path_factory.mktemp("faults") / "verdicts.json"
    command = [sys.executable, "tests/faults.py", "--json", str(file), "--only", *CASES]
    ended = warm.run(command, cwd=ROOT, capture_output=True, text=True)
    assert file.exists(), ended.stderr
    return json.loads(file.read_text())


@pytest.mark.parametrize("case", CASES)
def test_a_fault_does_no_harm(case, verdicts, record_property):
    verdict = verdicts[case]
    record_property("fault", verdict["what"])
    assert verdict["what"] in ("equal", "clear error"), verdict["why"]


def test_at_least_thirty():
    assert len(set(CASES)) >= 30
