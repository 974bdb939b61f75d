"""Read, validate and write settings: YAML files, strict types and errors in one line."""

from __future__ import annotations

import re
import reprlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from rankencoder.errors import InputError, nearest, resembling

_NO_PATH = re.compile("[\0\ud800-\udfff]")
_LINE_BREAKS = re.compile("[\r\n\x85\u2028\u2029]")
# what the constructors of PyYAML raise on impossible values, such as the date 2024-13-01
_IMPOSSIBLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Settings(BaseModel):
    """Base class of settings: strict types, except that floats accept "1e-5" and lists a single string."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, protected_namespaces=()
    )

    @field_validator("*", mode="before")
    @classmethod
    def _fit(cls, value: Any, info: ValidationInfo) -> Any:
        kinds = _kinds(cls.model_fields[str(info.field_name)].annotation)
        if isinstance(value, Path):
            value = str(value)
        if isinstance(value, tuple):
            value = list(value)
        if isinstance(value, str) and list in kinds:
            value = [value]
        if isinstance(value, str) and float in kinds:
            with suppress(ValueError):  # in YAML 1.1, 1e-5 is a string
                return float(value)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and _NO_PATH.search(text):
                raise PydanticCustomError("text", "a string that can be a path")
        return value


S = TypeVar("S", bound=Settings)


def validate(values: Mapping[str, Any], model: type[S], places: Mapping[str, str] | None = None) -> S:
    """Return the settings that a model makes of values.

    :param places: The source of each value, for messages: "train.yaml, line 3: ".
    """
    places = places or {}
    for name in values:
        if name not in model.model_fields:
            similar = nearest(name, model.model_fields)
            raise InputError(f"{places.get(name, '')}unknown setting {name!r}:{similar}")
    try:
        return model.model_validate(dict(values))
    except ValidationError as failed:
        name = str(next(iter(failed.errors()[0]["loc"]), ""))
        raise InputError(places.get(name, "") + explain(failed)) from None


def read_values(model: type[Settings], values: Mapping[str, Any], file: str | Path | None) -> dict[str, Any]:
    """Return the valid settings of a file and those given, which take precedence, in the model's order.

    :param values: None stands for "not given".
    """
    stored, places = read_settings(Path(file)) if file is not None else ({}, {})
    given = {name: value for name, value in values.items() if value is not None}
    chosen = {name: value for name, value in {**stored, **given}.items() if value is not None}
    found = validate(chosen, model, {name: place for name, place in places.items() if name not in given})
    return {name: getattr(found, name) for name in model.model_fields if name in chosen}


def explain(failed: ValidationError, title: str = "{}") -> str:
    """Describe the first invalid setting; a union has an error for each of its types.

    :param title: How to refer to it; braces stand for its name.
    """
    errors = failed.errors(include_url=False)
    name, first = next(iter(errors[0]["loc"]), ""), errors[0]
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    same = [error["msg"] for error in errors if error["loc"][:1] == (name,)]
    wanted = " or ".join(dict.fromkeys(message.removeprefix("Input should be ") for message in same))
    value = first["input"]
    item = "an item of " if any(isinstance(part, int) for part in first["loc"]) else ""
    similar = resembling(value, re.findall("'(.+?)'", wanted)) if isinstance(value, str) else ""
    return f"{item}{title.format(name)} is {shown(value)}, but must be {wanted}{similar and ':'}{similar}"


def _kinds(hint: Any) -> list[Any]:
    """Return the plain types of an annotation, without those inside lists."""
    if get_origin(hint) in (Union, UnionType):
        return [kind for arm in get_args(hint) for kind in _kinds(arm)]
    return _kinds(get_args(hint)[0]) if hasattr(hint, "__metadata__") else [get_origin(hint) or hint]


def shown(value: Any) -> str:
    """Return a value in brief; Python refuses to print integers of thousands of digits."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return "a huge number"


class _Loader(yaml.SafeLoader):
    """Rejects duplicate keys."""

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
    """Writes each text on one line, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = '"' if _LINE_BREAKS.search(text) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def read_settings(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the content of a YAML file, and the place of each key: "train.yaml, line 3: "."""
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
    """Write settings as YAML, one per line, and other settings as comments."""
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
