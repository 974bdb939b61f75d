"""Extract sentences and functions from docstrings without importing the code."""

from __future__ import annotations

import ast
import functools
import re
import sysconfig
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

_SKIPPED = {"site-packages", "test", "tests", "idlelib", "lib2to3", "idle_test", "__pycache__"}
_NO_PROSE = re.compile(r">>>|::|\|  |^\s*[-=~^*#]{3,}|[{}<>]{2}")


class Function(NamedTuple):
    """A public function and the first sentence of its docstring."""

    name: str
    purpose: str


def standard_library() -> Path:
    """Return the folder of the standard library."""
    return Path(sysconfig.get_paths()["stdlib"])


def sentences(folder: Path) -> Iterator[str]:
    """Yield the sentences of all docstrings below a folder."""
    for _, _, docstring in _docstrings(folder):
        yield from split_sentences(docstring)


def functions(folder: Path) -> list[Function]:
    """Return the public functions below a folder whose first docstring sentence is unique."""
    found: dict[str, Function] = {}
    shared: set[str] = set()
    for module, function, docstring in _docstrings(folder):
        if function is None or function.startswith("_") or "._" in f".{module}":
            continue
        purpose = next(split_sentences(docstring), "")
        if len(purpose.split()) < 4:
            continue
        shared |= {purpose} & set(found)
        found[purpose] = Function(_in_words(f"{module}.{function}"), purpose)
    unique: dict[str, Function] = {f.name: f for purpose, f in found.items() if purpose not in shared}
    return list(unique.values())


def spread_functions(found: list[Function], most: int) -> list[Function]:
    """Return evenly spaced functions to find: at most a third, so that names are left to learn from."""
    number = max(min(most, len(found) // 3), 1)
    return found[:: max(len(found) // number, 1)][:number]


def training_text(folder: Path, left_out: Collection[Function]) -> list[str]:
    """Return the distinct sentences and function names below a folder, without those of some functions."""
    unseen = set(chain.from_iterable(left_out))
    names = (function.name for function in functions(folder))
    return [text for text in dict.fromkeys(chain(sentences(folder), names)) if text not in unseen]


def split_sentences(docstring: str) -> Iterator[str]:
    """Yield the sentences of a docstring's paragraphs of prose."""
    for paragraph in re.split(r"\n\s*\n", docstring):
        if not _NO_PROSE.search(paragraph):
            for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(paragraph.split())):
                if 3 <= len(sentence.split()) <= 60:
                    yield sentence


@functools.cache
def _docstrings(folder: Path) -> list[tuple[str, str | None, str]]:
    """Return module, name (of a function) and text of all docstrings below a folder."""
    found: list[tuple[str, str | None, str]] = []
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder)
        if _SKIPPED & set(relative.parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        module = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                function = node.name if isinstance(node, ast.FunctionDef) else None
                if docstring := ast.get_docstring(node):
                    found.append((module, function, docstring))
    return found


def _in_words(name: str) -> str:
    """Return "shutil copy tree" for "shutil.copyTree" and "shutil.copy_tree"."""
    return " ".join(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.replace(".", " ").replace("_", " ")).split())
