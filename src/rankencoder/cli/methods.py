"""``rankencoder methods``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rankencoder.cli.console import print_json, print_table, say
from rankencoder.cli.options import Json

if TYPE_CHECKING:
    from rankencoder.training.methods.method import Family, Method


def methods(
    family: Annotated[Literal["bert", "roberta"], typer.Option(help="Backbone family.")] = "bert",
    large: Annotated[bool, typer.Option("--large", help="Settings for large backbones.")] = False,
    as_json: Json = False,
) -> None:
    """List the training methods with their papers, settings and options.

    Example: `rankencoder methods --family roberta`
    """
    from rankencoder.training.methods import methods as registered
    from rankencoder.training.methods.method import Family

    backbone = Family(is_roberta=family == "roberta", is_large=large)
    listed = {name: describe(method, backbone) for name, method in registered().items()}
    listed = dict(sorted(listed.items(), key=lambda item: (item[1]["year"], item[0])))
    print_json(listed) if as_json else _print(listed)


def describe(method: type[Method], backbone: Family) -> dict[str, Any]:
    """Describe a method, with its settings and options for a kind of backbone."""
    from rankencoder.training.config import Given, TrainConfig

    config = Given({"method": method.name}).resolve(backbone, method)
    fields: dict[str, Any] = TrainConfig.model_fields
    chosen = {name: getattr(config, name) for name in fields if fields[name].json_schema_extra["by_method"]}
    paper, year = method.paper()
    return {
        "about": method.about,
        "paper": paper,
        "year": year,
        "settings": {name: value for name, value in chosen.items() if value},
        "options": config.options,
    }


def _print(listed: dict[str, Any]) -> None:
    rows = []
    for name, about in listed.items():
        settings = ", ".join(
            f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in about["settings"].items()
        )
        options = ", ".join(f"{key}={value}" for key, value in about["options"].items())
        rows += [(name, about["about"]), ("", about["paper"]), ("", settings), ("", f"options: {options}")]
    print_table(rows)
    say("Settings are options of `rankencoder train`; a method's own options are --option NAME=VALUE.")
