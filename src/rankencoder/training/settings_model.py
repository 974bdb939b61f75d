"""The base class of settings, and pydantic's errors in one line of ours."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from rankencoder.errors import InputError, nearest, resembling

_NO_PATH = re.compile("[\0\ud800-\udfff]")


class Settings(BaseModel):
    """Base class of settings: strict types, but "1e-5" will do for a float and one string for a list."""

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
            with suppress(ValueError):  # YAML 1.1 takes 1e-5 for a string: it has no dot
                return float(value)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and _NO_PATH.search(text):
                raise PydanticCustomError("text", "a string that can be a path")
        return value


def validate(values: Mapping[str, Any], model: type[Settings], places: Mapping[str, str]) -> dict[str, Any]:
    """Return values as the fields of a model want them.

    :param places: Where a value comes from, for messages: "train.yaml, line 3: ".
    """
    for name in values:
        if name not in model.model_fields:
            similar = nearest(name, model.model_fields)
            raise InputError(f"{places.get(name, '')}unknown setting {name!r}:{similar}")
    try:
        found = model.model_validate(dict(values))
    except ValidationError as failed:
        name = str(next(iter(failed.errors()[0]["loc"]), ""))
        raise InputError(places.get(name, "") + explain(failed)) from None
    return {name: getattr(found, name) for name in values}


def explain(failed: ValidationError, title: str = "{}") -> str:
    """Return what is wrong with the first wrong setting; a union has an error for each of its types.

    :param title: What to call it, with its name in place of the braces.
    """
    errors = failed.errors(include_url=False)
    name, first = next(iter(errors[0]["loc"]), ""), errors[0]
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    same = [error for error in errors if error["loc"][:1] == (name,)]
    wanted = " or ".join(dict.fromkeys(map(_wanted, same)))
    value = first["input"]
    item = "an item of " if any(isinstance(part, int) for part in first["loc"]) else ""
    text = f"{item}{title.format(name)} is {shown(value)}, but must be {wanted}"
    choices = re.findall("'(.+?)'", wanted)
    is_text = choices or "string" in wanted
    if is_text and "number" not in wanted and isinstance(value, (bool, int, float, date)):
        return f"{text} (a string that looks like something else needs quotes)"
    similar = resembling(value, choices) if isinstance(value, str) else ""
    return text + f":{similar}" * bool(similar)


_WANTED = {
    "string_type": "a string",
    "string_unicode": "a string of valid characters",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "a finite number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "list_type": "a list",
    "dict_type": "a mapping",
    "literal_error": "one of {expected}",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
}


def _wanted(error: Any) -> str:
    if error["type"] not in _WANTED:
        return str(error["msg"])
    limits = {name: f"{x:g}" if isinstance(x, float) else x for name, x in error.get("ctx", {}).items()}
    return _WANTED[error["type"]].format(**limits)


def _kinds(hint: Any) -> list[Any]:
    """Return the plain types that an annotation is made of, without those inside lists."""
    if get_origin(hint) in (Union, UnionType):
        return [kind for arm in get_args(hint) for kind in _kinds(arm)]
    return _kinds(get_args(hint)[0]) if hasattr(hint, "__metadata__") else [get_origin(hint) or hint]


def shown(value: Any) -> str:
    """Return a value in brief; Python does not write integers of thousands of digits."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return "a huge number"
