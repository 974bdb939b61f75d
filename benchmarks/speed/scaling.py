"""How the cost of commands grows with the corpus: time and peak memory of each, from start to end.

The encoder is MiniLM's word vectors, averaged: a transformer would take days for a million sentences, and
its time grows as their number does. The time of small sizes is that of starting Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from search import average_of_word_vectors

from speed.models import texts
from speed.timing import exponent

_QUERIES = 100
# a process of its own starts each command: what its parent has in memory would count as the command's
_MEASURED = """
import json, os, sys, time
start = time.perf_counter()
with open(os.devnull, "w") as null:
    pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[
        (os.POSIX_SPAWN_DUP2, null.fileno(), 1), (os.POSIX_SPAWN_CLOSE, null.fileno())])
_, status, usage = os.wait4(pid, 0)
print(json.dumps([status, time.perf_counter() - start, 1024 * usage.ru_maxrss]))
"""


def measure(sizes: list[int], largest_distillation: int) -> list[dict[str, Any]]:
    """Run each command on corpora of these sizes, and fit how time and memory grow."""
    _, sentences = texts(max(sizes))
    found: dict[str, list[tuple[int, float, int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        average_of_word_vectors(Path(folder, "encoder"))
        for size in sizes:
            work = Path(folder, str(size))
            work.mkdir()
            some = sentences[:size]
            Path(work, "corpus.txt").write_text("\n".join(some) + "\n", encoding="utf-8")
            pairs = (f"{i % 6}\t{a}\t{some[i - 1]}\n" for i, a in enumerate(some))
            Path(work, "pairs.tsv").write_text("".join(pairs), encoding="utf-8")
            for what, arguments in _commands(sentences[:_QUERIES]).items():
                if what != "distill" or size <= largest_distillation:
                    found.setdefault(what, []).append((size, *_run(arguments, work)))
    return [_curve(what, rows) for what, rows in found.items()]


def _commands(queries: list[str]) -> dict[str, list[str]]:
    """Return the arguments of each command, run in a folder with a corpus and pairs of its size."""
    encoder, corpus = "../encoder", "corpus.txt"
    return {
        "encode": ["encode", encoder, corpus, "-o", "vectors.npy"],
        "build": ["build", encoder, corpus, "-o", "model"],
        "index": ["index", encoder, corpus, "-o", "index"],
        f"search, {_QUERIES} queries": ["search", "index", *queries],
        "evaluate": [
            "evaluate",
            "../encoder",
            "--dev",
            "pairs.tsv",
            "--task",
            "sts",
            "--no-cache",
            "-o",
            "scores",
        ],
        "distill": ["distill", corpus, "--teacher", encoder, "--student", "static", "-o", "student"],
    }


def _run(arguments: list[str], work: Path) -> tuple[float, int]:
    """Return the seconds and the peak memory of a command."""
    command = [sys.executable, "-c", _MEASURED, sys.executable, "-m", "rankencoder", *arguments]
    done = subprocess.run(command, cwd=work, check=True, stdout=subprocess.PIPE, text=True)
    status, seconds, peak = json.loads(done.stdout)
    if status:
        sys.exit(f"rankencoder {arguments[0]} failed in {work}")
    return seconds, peak


def _curve(what: str, rows: list[tuple[int, float, int]]) -> dict[str, Any]:
    sizes, times, peaks = ([row[i] for row in rows] for i in range(3))
    return {
        "what": f"rankencoder {what}",
        "x": "sentences",
        "sizes": sizes,
        "ms": [1000 * seconds for seconds in times],
        "peak_bytes": peaks,
        "exponent": exponent(sizes, times),
        "last_exponent": exponent(sizes[-2:], times[-2:]),
    }
