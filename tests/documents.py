"""README and docs, taken apart: blocks of code, the commands in them, and the code in sentences."""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
NOTEBOOKS = sorted(f"examples/{path.name}" for path in (ROOT / "examples").glob("*.ipynb"))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str

    @property
    def commands(self):
        """Its commands, as lists of words."""
        text = self.text.replace("\\\n", " ")
        if self.language == "console":
            lines = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        else:
            lines = text.splitlines() if self.language == "bash" else []
        return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page):
    """The fenced blocks of a page, or the cells of a notebook."""
    if page.endswith(".ipynb"):
        cells = [cell for cell in json.loads(read(page))["cells"] if cell["cell_type"] == "code"]
        texts = ["".join(cell["source"]) for cell in cells]
        return [
            Block("console", re.sub("^!", "$ ", text, flags=re.MULTILINE))
            if text.startswith("!")
            else Block("python", text)
            for text in texts
        ]
    return [Block(*found) for found in _BLOCK.findall(read(page))]


def spans(page):
    """The code in the sentences of a page, blanks made one."""
    text = _BLOCK.sub("", read(page))
    paragraphs = re.split(r"\n\s*\n", text)
    return [" ".join(span.split()) for paragraph in paragraphs for span in _SPAN.findall(paragraph)]
