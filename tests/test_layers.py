"""The house is in order: packages import downwards, names tell files apart, and libraries know no flags."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "rankencoder"

LAYERS = (
    ("_version",),
    ("errors", "formatting", "provenance", "progress"),
    ("io", "web_process"),
    ("core",),
    ("integrations",),
    ("evaluation",),
    ("training",),
    ("distillation",),
    ("tuning",),
    ("labels",),
    ("search",),
    ("report",),
    ("reproduction",),
    ("web_process",),
    ("server", "explorer"),
    ("scale",),
    ("demo",),
    ("cli",),
)
"""Each may import what is before it; those side by side do not import each other."""

CORE = {
    *("ranks", "blend", "batching", "encoders", "encoder_sources", "fingerprints", "reference", "model"),
    *("explain", "persistence", "forms", "modules", "vector_files", "fused_encoder", "text_fit"),
    *("model_card", "backends", "ranks_cuda", "tokens"),
}
"""The paper's objects: flat modules and `forms`, one layer, in which modules make no cycle."""

TRAINING = (
    ("gather", "backbones"),
    ("losses",),
    ("methods",),
    ("config",),
    ("loop", "teaching"),
    ("plan",),
    ("run",),
)
"""Inside `training`, the same; modules that are not named stand wherever their imports allow."""

LARGEST = 350
"""Lines of a file."""


@cache
def modules():
    """The dotted name of every module below `rankencoder`, with its file."""
    named = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(module):
    """The modules of ours that one imports, wherever in its code; also those that are named in strings."""
    path = modules()[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = node.module or ""
            if node.level:
                parents = ["rankencoder", *filter(None, package.split("."))]
                start = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [node.module])])
            names = [(start, alias.name) for alias in node.names]
        else:
            continue
        for start, name in names:
            if start.partition(".")[0] == "rankencoder":
                inner = start.partition(".")[2]
                deeper = f"{inner}.{name}".strip(".")
                yield deeper if deeper in modules() else inner


@cache
def edges():
    """Which module imports which, without the package's front door, which names what is public."""
    return {module: set(imports(module)) - {module} for module in modules() if module not in ("", "__main__")}


def room(module):
    """The sub-package or layer of a module."""
    first = module.partition(".")[0]
    return "core" if first in CORE else first


def level(name, layers):
    return next((number for number, names in enumerate(layers) if name in names), None)


def upward(edges, layers):
    """The imports that do not go down."""
    for module, imported in edges:
        for target in imported:
            above, below = level(module[1], layers), level(target[1], layers)
            if module[1] != target[1] and None not in (above, below) and above <= below:
                yield f"{module[0]} -> {target[0]}"


def cycles(graph):
    """The groups of nodes that can be reached from each other."""
    reached = {}
    for start in graph:
        reached[start], waiting = set(), [start]
        while waiting:
            new = graph.get(waiting.pop(), set()) - reached[start]
            reached[start] |= new
            waiting += new
    groups = {frozenset(n for n in reached[node] if node in reached.get(n, ())) for node in graph}
    return {", ".join(sorted(group)) for group in groups if group}


def test_every_module_has_a_layer():
    placed = {name for names in LAYERS for name in names}
    assert {room(module) for module in edges()} - placed == set()


def test_packages_import_downwards():
    named = [((m, room(m)), {(t, room(t)) for t in targets}) for m, targets in edges().items()]
    assert sorted(upward(named, LAYERS)) == []


def test_training_imports_downwards():
    inner = {m: t for m, t in edges().items() if m.startswith("training.")}

    def place(module):
        return module.split(".")[1]

    named = [
        ((m, place(m)), {(t, place(t)) for t in targets if t.startswith("training.")})
        for m, targets in inner.items()
    ]
    assert sorted(upward(named, TRAINING)) == []


def test_no_package_is_in_a_cycle():
    graph = {}
    for module, targets in edges().items():
        graph.setdefault(room(module), set()).update(set(map(room, targets)) - {room(module), ""})
    assert cycles(graph) == set()


def test_no_module_is_in_a_cycle():
    assert cycles(edges()) == set()


def test_nothing_imports_the_front_door():
    assert [m for m, targets in edges().items() if "" in targets and room(m) != "cli"] == []


def test_no_two_files_have_the_same_name():
    names = Counter(path.name for path in modules().values() if not path.name.startswith("__"))
    assert [name for name, number in names.items() if number > 1] == []


def test_no_file_is_long():
    sizes = {m: len(path.read_text(encoding="utf-8").splitlines()) for m, path in modules().items()}
    assert [module for module, lines in sizes.items() if lines > LARGEST] == []


@cache
def verbs():
    """What the command line can be told to do."""
    from typer.main import get_command

    from rankencoder.cli import app

    return sorted(get_command(app).commands)


def strings(path):
    """Each string literal of a file, f-strings by their parts."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("rule", ["flag", "command line"])
def test_nothing_below_the_command_line_speaks_of_it(rule):
    pattern = {
        "flag": r"(?<![\w(-])--[a-z][a-z-]+\b(?!:)",  # not those of style sheets
        "command line": rf"\brankencoder (?:{'|'.join(verbs())})\b",
    }[rule]
    found = {
        f"{module}: {match[0]}"
        for module, path in modules().items()
        if room(module) not in ("cli", "__main__")
        for text in strings(path)
        if "ray start" not in text  # a command line of another program
        for match in re.finditer(pattern, text)
    }
    assert found == set()


def test_the_checks_find_what_they_look_for():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == {"b, c"}
    assert cycles({"a": {"b", "c"}, "b": {"c"}}) == set()
    layers = (("low",), ("one", "two"))
    named = [(("two.x", "two"), {("low.y", "low"), ("one.z", "one")}), (("low.y", "low"), {("one.z", "one")})]
    assert sorted(upward(named, layers)) == ["low.y -> one.z", "two.x -> one.z"]
    assert "errors" in set(imports("io.storage"))
