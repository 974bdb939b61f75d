"""The base class of settings, and pydantic's errors as one line."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from contextlib import suppress
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
    same = [error["msg"] for error in errors if error["loc"][:1] == (name,)]
    wanted = " or ".join(dict.fromkeys(message.removeprefix("Input should be ") for message in same))
    value = first["input"]
    item = "an item of " if any(isinstance(part, int) for part in first["loc"]) else ""
    similar = resembling(value, re.findall("'(.+?)'", wanted)) if isinstance(value, str) else ""
    return f"{item}{title.format(name)} is {shown(value)}, but must be {wanted}{similar and ':'}{similar}"


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
