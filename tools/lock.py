"""Writes requirements.lock: exact versions and checksums of all that CI installs, for Linux and Python 3.11.

`make lock`. The versions are those of constraints.txt, which pip takes on every Python; what that file does
not name gets its newest version. torch is not in the lock: its build (CPU or CUDA) is the machine's, its
version that of constraints.txt.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
HEADER = """\
# Written by `make lock`; not to be changed by hand. For Linux (x86-64) and Python 3.11, without torch:
# pip install -c constraints.txt torch
# pip install --no-deps --require-hashes -r requirements.lock
"""
OPTIONS = [
    *("--extra", "dev"),
    *("--constraints", "constraints.txt"),
    *("--python-version", "3.11.7"),
    *("--python-platform", "x86_64-manylinux_2_28"),
    *("--no-emit-package", "torch"),
    "--generate-hashes",
    "--no-annotate",
    "--no-header",
    "--quiet",
]


def without_cuda(text: str) -> str:
    """Leave out what only torch's CUDA build needs: names that begin so, and their checksums."""
    kept, leave = [], False
    for line in text.splitlines(keepends=True):
        if not line.startswith(" "):
            leave = line.startswith(("nvidia-", "cuda-"))
        if not leave:
            kept.append(line)
    return "".join(kept)


def main() -> None:
    """Resolve, and write the file."""
    command = ["uv", "pip", "compile", "pyproject.toml", *OPTIONS]
    python = Path(sys.executable)
    found = subprocess.run(
        [python.with_name(command[0]), *command[1:]], cwd=ROOT, check=True, capture_output=True, text=True
    )
    LOCK.write_text(HEADER + without_cuda(found.stdout), encoding="utf-8")


if __name__ == "__main__":
    main()
