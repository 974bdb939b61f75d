"""Draw the README's picture: ``python docs/picture.py MODEL``, MODEL being the demo's."""

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
    console = Console(record=True, width=76, highlight=False)
    with patch.object(compare, "console", lambda: console):
        compare.print_explanation(RankEncoder.load(sys.argv[1]).explain(A, B), "ranks", show=8)
    picture = console.export_svg(title="rankencoder explain")
    picture = re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # fonts of a CDN
    Path(__file__).with_name("explain.svg").write_text(picture, encoding="utf-8")
