"""Options made from declared settings: one for each field of a model, and --set for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from rankencoder.errors import InputError, nearest
from rankencoder.training.run_settings import RunSettings

_TYPES: dict[Any, Any] = {int: int | None, float: float | None, bool: bool | None, list: list[str] | None}


def _help_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        for option in context.command.params:
            option.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit()


ConfigFile = Annotated[Path | None, typer.Option(help="YAML file of settings; options override it.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the interrupted run in the output folder.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Any setting, as NAME=VALUE. Repeatable.")]
HelpAll = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=_help_all, help="Show all settings.")
]


def given_settings(
    options: Mapping[str, Any], pairs: list[str] | None, model: type[RunSettings]
) -> dict[str, Any]:
    """Return the settings that were given, as options or by --set."""
    given = {name: value for name, value in options.items() if value not in (None, [])}
    given |= (chosen := parse_pairs(pairs or [], "--set"))
    if missing := [name for name, value in chosen.items() if value is None]:
        raise InputError(f"--set {missing[0]}: no value given")
    for name in chosen:
        if name not in model.model_fields:
            raise InputError(f"--set {name}: unknown setting:{nearest(name, model.model_fields)}")
    return given


def parse_pairs(pairs: list[str], flag: str) -> dict[str, Any]:
    """Return names and values of "name=value", the values read as YAML."""
    import yaml

    found = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise InputError(f"{flag} {pair!r} is not of the form NAME=VALUE")
        try:
            found[name.strip().replace("-", "_")] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError) as error:
            raise InputError(f"{flag} {pair!r}: {value!r} is not a value") from error
    return found


def _option_of(
    name: str, model: type[RunSettings], default_text: Callable[[str], str], flags: Sequence[str]
) -> inspect.Parameter:
    field = model.model_fields[name]
    about: Any = field.json_schema_extra
    option = typer.Option(
        *flags,
        help=f"{field.description} \\[{default}]" if (default := default_text(name)) else field.description,
        rich_help_panel=about["group"],
        hidden=not about["common"],
        metavar="|".join(get_args(field.annotation)) if get_origin(field.annotation) is Literal else None,
    )
    kind = get_origin(field.annotation) or field.annotation
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[_TYPES.get(kind, str | None), option],
    )


def add_options(
    command: Any,
    model: type[RunSettings],
    default_text: Callable[[str], str],
    *,
    flags: Mapping[str, list[str]],
    left_out: Sequence[str],
) -> None:
    """Give a command an option for each setting, in place of its keyword arguments.

    :param default_text: Says what a setting is by default.
    :param flags: Other names of options.
    :param left_out: Settings that the command takes in another way.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    names = [name for name in model.by_group() if name not in left_out]
    made = [_option_of(name, model, default_text, flags.get(name, ())) for name in names]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    parameters = [*own[:-1], *made, own[-1]]
    command.__signature__ = inspect.Signature(parameters, return_annotation=None)
    command.__annotations__ = {p.name: p.annotation for p in parameters}
