"""Options of trainings, one for each declared setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from rankencoder.cli.console import print_json
from rankencoder.cli.options import OptionGroup, Overwrite
from rankencoder.errors import InputError, nearest
from rankencoder.training.run_settings import Automatic, RunSettings

_TYPES: dict[Any, Any] = {int: int | None, float: float | None, bool: bool | None, list: list[str] | None}
_TYPES[Automatic] = bool | None


def _help_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        for option in context.command.params:
            option.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit()


RunFolder = Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Any setting, as NAME=VALUE. Repeatable.")]
MethodOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option", help="Option of the method, as NAME=VALUE. Repeatable.", rich_help_panel="Method"
    ),
]
_Corpus = Annotated[
    Path | None, typer.Argument(help="Sentences: .txt, .jsonl, .csv, .tsv, .parquet or folder.")
]
_ConfigFile = Annotated[Path | None, typer.Option(help="YAML file of settings; options override it.")]
_Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in the output folder.")]
_HelpAll = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=_help_all, help="Show all settings.")
]
_RUN: dict[str, tuple[Any, Any]] = {
    "corpus": (None, _Corpus),
    "output": (None, RunFolder),
    "config": (None, _ConfigFile),
    "resume": (False, _Resume),
    "overwrite": (False, Overwrite),
    "set": (None, Set),
    "help_all": (False, _HelpAll),
}
_FLAGS = {"teachers": ["--teacher"], "only_base": ["--only-base"], "no_header": ["--no-header"]}


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


def print_record(run: Any) -> None:
    """Print the record of a training or distillation as JSON, without its history."""
    print_json({"output": str(run.folder), **{k: v for k, v in run.record.items() if k != "history"}})


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


def _option_type(annotation: Any) -> Any:
    return _TYPES.get(annotation) or _TYPES.get(get_origin(annotation), str | None)


def run_options(model: type[RunSettings], default_text: Callable[[str], str]) -> Any:
    """Return the options of a training: what is read and written, and one for each setting.

    :param default_text: Returns the text for a setting's default.
    """
    options = dict(_RUN)
    for name in (name for name in model.by_group() if name not in _RUN):
        field = model.model_fields[name]
        about: Any = field.json_schema_extra
        default, is_choice = default_text(name), get_origin(field.annotation) is Literal
        option = typer.Option(
            *_FLAGS.get(name, ()),
            help=f"{field.description} \\[{default}]" if default else field.description,
            rich_help_panel=about["group"],
            hidden=not about["common"],
            metavar="|".join(get_args(field.annotation)) if is_choice else None,
        )
        options[name] = (None, Annotated[_option_type(field.annotation), option])

    def gather(*, config: Path | None, resume: bool, overwrite: bool, **given: Any) -> dict[str, Any]:
        given.pop("help_all")
        chosen = given_settings(given, given.pop("set"), model)
        return {"config": config, "resume": resume, "overwrite": overwrite, **chosen}

    return OptionGroup(options, gather)
