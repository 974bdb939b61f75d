"""Three forms of the rank part of a vector: exact, compact, linear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError
from rankencoder.forms.compact import CompactForm as CompactForm
from rankencoder.forms.exact import ExactForm as ExactForm
from rankencoder.forms.form import Form as Form
from rankencoder.forms.linear import LinearForm as LinearForm

if TYPE_CHECKING:
    import torch

FORMS: dict[str, type[Form]] = {form.name: form for form in (ExactForm, CompactForm, LinearForm)}


def fit_form(name: str, reference: torch.Tensor, **settings: Any) -> Form:
    """Fit the form of a name to reference vectors.

    :param settings: What the form takes, None meaning its default: ``dim`` (compact), ``power`` and
        ``center`` (linear).
    """
    return _form(name).fit(reference, **check_settings(name, **settings))


def check_settings(name: str, **settings: Any) -> dict[str, Any]:
    """Return the settings that are given, None meaning not given."""
    form = _form(name)
    given = {key: value for key, value in settings.items() if value is not None}
    for key in given:
        if key not in form.settings:
            owners = [other.name for other in FORMS.values() if key in other.settings]
            raise InputError(
                f"{key} is no setting of the {name} form" + (f", but of {owners[0]}" if owners else "")
            )
    form.check(**given)
    return given


def restore_form(
    name: str, settings: dict[str, Any], reference: torch.Tensor, tensors: dict[str, torch.Tensor]
) -> Form:
    """Make a form anew from what `Form.config` and `Form.tensors` gave."""
    return _form(name)(reference, **settings, **tensors)


def _form(name: str) -> type[Form]:
    if name not in FORMS:
        raise InputError(f"unknown form {name!r}: use {', '.join(FORMS)}")
    return FORMS[name]
