"""Draw the README's picture: ``python docs/picture.py MODEL``, where MODEL is the demo's."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from rankencoder import RankEncoder
from rankencoder.cli import compare

A, B = "Delete a file from the disk.", "Remove a directory and everything in it."

if __name__ == "__main__":
    recorder = Console(record=True, width=76, highlight=False)
    model = RankEncoder.load(sys.argv[1])
    with (
        patch.object(compare, "console", lambda: recorder),
        patch("rankencoder.cli.console.console", lambda: recorder),  # tables print to this one
    ):
        compare.print_explanation(model.explain(A, B), "ranks", show=8)
    picture = recorder.export_svg(title="rankencoder explain")
    picture = re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # fonts of a CDN
    Path(__file__).with_name("explain.svg").write_text(picture, encoding="utf-8")
