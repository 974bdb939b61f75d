"""Read and write settings as YAML, with the line of each key for messages."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rankencoder.errors import InputError
from rankencoder.training.settings_model import shown

_LINE_BREAKS = re.compile("[\r\n\x85\u2028\u2029]")
# what the constructors of PyYAML raise on impossible values, such as the date 2024-13-01
_IMPOSSIBLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class _Loader(yaml.SafeLoader):
    """Refuses keys that are given twice."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if (key.tag, key.value) in seen:
                problem = f"{key.value!r} is given twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add((key.tag, key.value))
        return node


class _Dumper(yaml.SafeDumper):
    """Writes texts on one line, and whatever is there twice twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = '"' if _LINE_BREAKS.search(text) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def merge_settings(
    values: Mapping[str, Any], file: str | Path | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings of a file and those given, which go before, and where those of the file are.

    :param values: None stands for "not given".
    """
    stored, places = read_settings(Path(file)) if file is not None else ({}, {})
    given = {name: value for name, value in values.items() if value is not None}
    chosen = {name: value for name, value in {**stored, **given}.items() if value is not None}
    return chosen, {name: place for name, place in places.items() if name not in given}


def read_settings(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what a YAML file says, and the place of each of its keys: "train.yaml, line 3: "."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8; convert the file") from error
    values, lines = _parse_yaml(text, path)
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected lines of 'key: value', got {shown(values)}")
    places = {str(key): f"{path}, line {lines[key]}: " if key in lines else f"{path}: " for key in values}
    return {str(key): value for key, value in values.items()}, places


def _parse_yaml(text: str, path: Path) -> tuple[Any, dict[Any, int]]:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        values = {} if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        raise InputError(f"{path}, line {mark.line + 1}: not YAML ({error.problem})") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(
            f"{path}, line {line}: not YAML (character {error.character!r} is not allowed)"
        ) from error
    except _IMPOSSIBLE as error:
        raise InputError(f"{path}: not YAML ({error})") from error
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return values, {key.value: key.start_mark.line + 1 for key, _ in pairs if isinstance(key.value, str)}


def write_settings(path: Path, values: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Write settings as YAML, one a line, and others among them as comments."""
    from rankencoder.io.storage import new_file

    rows = {**others, **values}
    mark = {key: "" if key in values else "# " for key in rows}
    text = "".join(f"{mark[key]}{_inline(key)}: {_inline(value)}\n" for key, value in rows.items())
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _inline(value: Any) -> str:
    text = yaml.dump(
        value, Dumper=_Dumper, width=sys.maxsize, default_flow_style=True, allow_unicode=True, sort_keys=False
    )
    return text.removesuffix("\n...\n").removesuffix("\n")
