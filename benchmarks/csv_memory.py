"""Peak memory and time of reading and encoding CSV files of 10,000, 100,000 and 1,000,000 rows.

Each measurement is a process of its own. The encoder is a function that costs nothing, of 32 dimensions: what
is measured is reading, carrying six columns with their types, and writing Parquet. "nothing" is a process
that imports the same modules and reads no file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rankencoder.io.storage import write_json
from rankencoder.provenance import provenance

RESULT = Path(__file__).with_name("results") / "csv-memory.json"
SIZES = (10_000, 100_000, 1_000_000)
WORK = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[4])
from rankencoder.io.corpus import read_sentences
from rankencoder.vector_files import encode_file
from peak_memory import PEAK
exec(PEAK)
def lengths(texts):
    return np.array([[len(text) % (i + 2) + 1.0 for i in range(32)] for text in texts])
encode_file(lengths, sys.argv[3], sys.argv[3] + ".warm.npy", column="question", overwrite=True)
if sys.argv[1] == "read":
    print(sum(1 for _ in read_sentences(sys.argv[2], column="question", with_columns=True)), end=" ")
elif sys.argv[1] == "encode":
    print(encode_file(lengths, sys.argv[2], sys.argv[2] + ".parquet", column="question")["encoded"], end=" ")
else:
    print(0, end=" ")
print(peak())
"""


def write_table(path: Path, rows: int) -> None:
    """Write a table of questions with ids, dates, numbers and quoted newlines."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("ticket;day;question;price;urgent;lang\n")
        for i in range(rows):
            question = f'"How do I change the ""address"" of order {i}?\nIt moved to street {i % 97}."'
            file.write(f"{i};2026-{i % 12 + 1:02d}-{i % 28 + 1:02d};{question};{i / 4};{i % 2 == 0};en\n")


def measure(what: str, path: Path, few: Path) -> dict[str, float]:
    """Return rows, megabytes at most and seconds of one piece of work, in a process of its own."""
    tests = str(Path(__file__).parents[1] / "tests")
    start = time.monotonic()
    command = [sys.executable, "-c", WORK, what, str(path), str(few), tests]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    seconds = time.monotonic() - start
    return {"rows": int(found[0]), "peak_mb": round(int(found[1]) / 1024), "seconds": round(seconds, 1)}


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        few = Path(folder, "few.csv")
        write_table(few, 100)
        for rows in (0, *given.sizes):
            path = Path(folder, f"{rows}.csv")
            write_table(path, rows)
            size = round(path.stat().st_size / 2**20, 1)
            for what in ("read", "encode") if rows else ("nothing",):
                found.append({"what": what, "file_mb": size, **measure(what, path, few)})
                print(json.dumps(found[-1]), flush=True)
    write_json(given.output, {"measurements": found, **provenance()})


if __name__ == "__main__":
    main()
