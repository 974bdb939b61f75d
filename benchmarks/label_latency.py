"""How long `rankencoder label` takes to ask its first question, and to go on after each key.

An index of 100,000 Wikipedia sentences by potion-base-8M (``pypi_encoders.py``). The command runs in a
pseudo-terminal; a key counts from its press until the next question is there, with the summary after each ten
answers. On a machine shared with other work the seconds of the processor say more than those of the clock::

    python benchmarks/label_latency.py experiments-work/encoders/potion
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import pty
import resource
import subprocess
import sys
import tempfile
import termios
import time
from itertools import islice
from pathlib import Path

import numpy as np
from sts import SHARED

from rankencoder.io.storage import write_json
from rankencoder.provenance import provenance

SIZE, KEYS = 100_000, 120


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, *command: str) -> None:
        self.began = time.perf_counter()
        self.screen, slave = pty.openpty()
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.text = ""

    def see(self, text: str) -> float:
        """Wait until a text is shown, and return the time."""
        while text not in self.text:
            self.text += os.read(self.screen, 65536).decode(errors="replace")
        self.text = self.text.partition(text)[2]
        return time.perf_counter()

    def press(self, key: str) -> float:
        """Press a key once the command waits for one, and return the time."""
        while termios.tcgetattr(self.screen)[3] & termios.ICANON:
            time.sleep(0.0005)
        os.write(self.screen, key.encode())
        return time.perf_counter()


def sit(encoder: Path, index: Path, labels: Path) -> dict[str, float]:
    """Answer all questions of a sitting, and return its times."""
    rankencoder = (sys.executable, "-m", "rankencoder")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    terminal = Terminal(*rankencoder, "label", str(encoder), str(index), "-o", str(labels))
    ready = terminal.see(f" of {KEYS} ") - terminal.began
    waits = []
    for number in range(KEYS - 1):
        pressed = terminal.press("yn"[number % 2])
        waits.append(1000 * (terminal.see(f" of {KEYS} ") - pressed))
    terminal.press("q")
    terminal.process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    median, slow, slowest = np.percentile(waits, [50, 95, 100])
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    times = {"ready_seconds": ready, "processor_seconds": processor}
    times |= {"key_ms_median": median, "key_ms_95": slow, "key_ms_slowest": slowest}
    return {name: round(float(value), 2) for name, value in times.items()}


def main() -> None:
    """Make the index, and sit three times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/label-latency.json"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus, index = Path(folder) / "corpus.txt", Path(folder) / "index"
        with lzma.open(SHARED / "data/wiki/wiki1m-part0.txt.xz", "rt", encoding="utf-8") as lines:
            corpus.write_text("".join(islice(lines, SIZE)), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "rankencoder",
            "index",
            str(args.encoder),
            str(corpus),
            "-o",
            str(index),
        ]
        subprocess.run(command, check=True)
        sittings = []
        for run in range(args.runs):
            load = os.getloadavg()[0]
            sittings.append({"load": round(load, 1), **sit(args.encoder, index, Path(folder) / f"{run}.tsv")})
            print(json.dumps(sittings[-1]), flush=True)
    about = {"sentences": SIZE, "keys": KEYS, "cores": len(os.sched_getaffinity(0)), **provenance()}
    write_json(args.output, {**about, "sittings": sittings})


if __name__ == "__main__":
    main()
