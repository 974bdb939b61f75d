"""The three forms of the rank part of a vector: exact, compact and linear."""

from __future__ import annotations

from math import inf
from typing import Any

import torch

from rankencoder.errors import InputError
from rankencoder.forms.compact import CompactForm as CompactForm
from rankencoder.forms.exact import ExactForm as ExactForm
from rankencoder.forms.form import Form as Form
from rankencoder.forms.linear import LinearForm as LinearForm

FORMS: dict[str, type[Form]] = {form.name: form for form in (ExactForm, CompactForm, LinearForm)}


def fit_form(name: str, reference: torch.Tensor, **settings: Any) -> Form:
    """Fit a form to reference vectors.

    :param settings: ``dim`` (compact), ``power`` and ``center`` (linear); None stands for the default.
    """
    return _form(name).fit(reference, **check_settings(name, **settings))


def check_settings(name: str, **settings: Any) -> dict[str, Any]:
    """Check the settings of a form, and return those that are not None."""
    form = _form(name)
    given = {key: value for key, value in settings.items() if value is not None}
    for key, value in given.items():
        if key not in form.settings:
            owner = next((f", but of {other.name}" for other in FORMS.values() if key in other.settings), "")
            raise InputError(f"{key} is not a setting of the {name} form{owner}")
        low, high = form.settings[key]
        if not low <= value <= high:
            bounds = f"at least {low}" if high == inf else f"between {low} and {high}"
            raise InputError(f"{key} must be {bounds}, not {value}")
    return given


def restore_form(
    name: str, settings: dict[str, Any], reference: torch.Tensor, tensors: dict[str, torch.Tensor]
) -> Form:
    """Restore a form from its `Form.config` and `Form.tensors`."""
    return _form(name)(reference, **settings, **tensors)


def _form(name: str) -> type[Form]:
    if name not in FORMS:
        raise InputError(f"unknown form {name!r}: use {', '.join(FORMS)}")
    return FORMS[name]
