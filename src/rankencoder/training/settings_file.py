"""Settings files: the fields of a dataclass as YAML or TOML, each checked against its type."""

from __future__ import annotations

import math
import os
import re
import reprlib
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import date, time
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rankencoder.errors import InputError, nearest, resembling
from rankencoder.io.storage import new_file

_INSTALL = "pip install 'rankencoder[train]'"
_MOST_BITS = 10_000  # of an integer: Python does not write much longer ones
_LARGEST = 2**20  # bytes: the parser of YAML is slow
_LINE_BREAKS = re.compile("[\r\n\x85\u2028\u2029]")
# what the constructors of PyYAML raise on impossible values, such as the date 2024-13-01
_IMPOSSIBLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def read_settings(path: Path, cls: type[Any]) -> dict[str, Any]:
    """Return the settings that a ``.yaml``, ``.yml`` or ``.toml`` file gives, checked against a dataclass.

    :param cls: The dataclass whose fields the file may set; those that it leaves out are not in the result.
    :raises InputError: If the file cannot be read, or holds an unknown key or a value of the wrong type.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    if path.stat().st_size > _LARGEST:
        raise InputError(f"{path} is too large for settings: it has more than {_LARGEST:,} bytes")
    parsers: dict[str, Callable[[str, Path], Any]] = {
        ".yaml": _parse_yaml,
        ".yml": _parse_yaml,
        ".toml": _parse_toml,
    }
    parse = parsers.get(path.suffix.lower())
    if parse is None:
        raise InputError(f"{path}: settings are read from .yaml or .toml files; rename it")
    try:
        values = parse(path.read_text(encoding="utf-8-sig"), path)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8; convert the file") from error
    if values is None:  # nothing but comments
        return {}
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected lines of 'key: value', got {_shown(values)}")
    return check_types(values, cls, str(path))


def check_types(values: Mapping[str, Any], cls: type[Any], place: str) -> dict[str, Any]:
    """Return values as the fields of a dataclass want them.

    A whole number or a string such as "1e-5" will do for a float, and one string for a list of them.

    :param place: Where the values come from, for messages.
    :raises InputError: If there is no such field, or its type does not take the value.
    """
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls) if field.init]
    checked = {}
    for key, value in values.items():
        if key not in names:
            raise InputError(f"unknown key {key!r} in {place}:{nearest(str(key), names)}")
        try:
            checked[key] = _fit(value, hints[key])
        except (ValueError, OverflowError):
            raise InputError(
                f"{place}: {key} is {_shown(value)}, but must be {_wanted(value, hints[key])}"
            ) from None
    return checked


def _shown(value: Any) -> str:
    """Return a value in brief; Python does not write integers of thousands of digits."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return "a huge number"


def write_settings(path: Path, values: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> None:
    """Write settings as YAML, one a line in the order given; ``read_settings`` returns them unchanged.

    :param comments: What to say about some of the keys, behind their values.
    :raises InputError: If the name does not end in ``.yaml`` or ``.yml``.
    """
    path = Path(path)
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise InputError(f"{path}: settings are written as YAML; name the file .yaml")
    inline = _yaml_writer()
    lines = []
    for key, value in values.items():
        comment = " ".join((comments or {}).get(key, "").split())
        lines.append(f"{inline(key)}: {inline(value)}" + f"  # {comment}" * bool(comment) + "\n")
    with new_file(path) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8")


def _fit(value: Any, hint: Any) -> Any:
    """Return a value as a type wants it.

    :raises ValueError: If the type does not take it.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, UnionType):
        return _fit_first(value, arguments)
    if origin is Literal:
        return _fit_choice(value, arguments)
    if origin in (list, tuple):
        items = [value] if isinstance(value, str) else _expect(list, tuple)(value)
        return origin(_fit(item, arguments[0]) for item in items)
    if origin is dict:
        return {_fit(k, arguments[0]): _fit(v, arguments[1]) for k, v in _expect(dict)(value).items()}
    if hint not in _SCALARS:
        raise TypeError(f"settings cannot hold {hint}")
    return _SCALARS[hint][0](value)


def _fit_first(value: Any, hints: tuple[Any, ...]) -> Any:
    for hint in hints:
        with suppress(ValueError, OverflowError):
            return _fit(value, hint)
    raise ValueError


def _fit_choice(value: Any, choices: tuple[Any, ...]) -> Any:
    for choice in choices:
        if value == choice and type(value) is type(choice):  # True == 1
            return choice
    raise ValueError


def _fit_float(value: Any) -> float:
    # YAML 1.1 takes 1e-5 for a string: it has no dot
    number = float(_expect(int, float, str)(value))
    if not math.isfinite(number):
        raise ValueError
    return number


def _fit_integer(value: Any) -> int:
    number: int = _expect(int)(value)
    if number.bit_length() > _MOST_BITS:
        raise ValueError
    return number


def _fit_text(value: Any) -> str:
    text: str = os.fspath(_expect(str, Path)(value))
    if "\0" in text:  # no path can hold it
        raise ValueError
    text.encode()  # nor a lone surrogate, a UnicodeEncodeError being a ValueError
    return text


def _expect(*types: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ValueError
        return value

    return check


_SCALARS: dict[Any, tuple[Callable[[Any], Any], str]] = {
    str: (_fit_text, "a string"),
    int: (_fit_integer, "a whole number"),
    float: (_fit_float, "a finite number"),
    bool: (_expect(bool), "true or false"),
    Path: (lambda value: Path(_expect(str, Path)(value)), "a path"),
    NoneType: (_expect(NoneType), "null"),
}


def _wanted(value: Any, hint: Any) -> str:
    """Say what a type takes, and how a value that it refused may be mended."""
    alternatives = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    literals = [arm for arm in alternatives if get_origin(arm) is Literal]
    choices = [choice for arm in literals for choice in get_args(arm) if isinstance(choice, str)]
    wanted = " or ".join(map(_describe, alternatives))
    if isinstance(value, (bool, int, float, date, time)) and (choices or str in alternatives):
        return f"{wanted} (a string that looks like something else needs quotes)"
    similar = resembling(value, choices) if isinstance(value, str) else ""
    return wanted + f":{similar}" * bool(similar)


def _describe(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if origin in (list, tuple):
        return f"a list (each item {_describe(arguments[0])})"
    if origin is dict:
        return "a mapping"
    return _SCALARS[hint][1]


def _parse_toml(text: str, path: Path) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ImportError as error:
            raise InputError(f"TOML files need tomli on Python 3.10: {_INSTALL}") from error
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else text.rstrip().count("\n") + 1
        raise InputError(f"{path}, line {line}: not TOML ({error})") from error


def _parse_yaml(text: str, path: Path) -> Any:
    yaml = _import_yaml()
    try:
        return _yaml_loader()(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InputError(f"{path}, line {mark.line + 1}: not YAML ({error.problem})") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(
            f"{path}, line {line}: not YAML (character {error.character!r} is not allowed)"
        ) from error
    except _IMPOSSIBLE as error:
        raise InputError(f"{path}: not YAML ({error})") from error


def _yaml_loader() -> Any:
    yaml = _import_yaml()

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if (name := (key.tag, key.value)) in seen:
                        raise yaml.MarkedYAMLError(
                            problem=f"{key.value!r} is given twice", problem_mark=key.start_mark
                        )
                    seen.add(name)
            return node

    return Loader


def _yaml_writer() -> Callable[[Any], str]:
    """Return a function that writes any value on one line."""
    yaml = _import_yaml()

    class Dumper(yaml.SafeDumper):  # type: ignore[misc, name-defined]
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_text(self, text: str) -> Any:
            style = '"' if _LINE_BREAKS.search(text) else None
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, Dumper.represent_text)
    Dumper.add_multi_representer(Path, lambda dumper, value: dumper.represent_text(str(value)))

    def inline(value: Any) -> str:
        options = {"default_flow_style": True, "allow_unicode": True, "sort_keys": False}
        text: str = yaml.dump(value, Dumper=Dumper, width=sys.maxsize, **options)
        return text.removesuffix("\n...\n").removesuffix("\n")

    return inline


def _import_yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise InputError(f"settings files need PyYAML: {_INSTALL}") from error
    return yaml
