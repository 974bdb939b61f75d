"""``rankencoder reproduce``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankencoder.cli.console import prepare, print_json, print_table, say
from rankencoder.cli.options import Device, Json
from rankencoder.cli.setting_options import MethodOptions, RunFolder, Set, given_settings, parse_pairs

if TYPE_CHECKING:
    from rankencoder.reproduction.reproducer import Reproduction, Verdict


def reproduce(
    recipe: Annotated[
        str,
        typer.Argument(help="A method, or rankencoder-simcse, rankencoder-promptbert, rankencoder-sncse."),
    ],
    output: RunFolder = None,
    data: Annotated[Path | None, typer.Option(help="Folder of fetched data. [default: the cache]")] = None,
    corpus: Annotated[Path | None, typer.Option(help="Train on these sentences instead.")] = None,
    backbone: Annotated[str | None, typer.Option(help="Train this instead of bert-base-uncased.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the commands and stop.")] = False,
    device: Device = None,
    options: MethodOptions = None,
    set: Set = None,
    as_json: Json = False,
) -> None:
    """Reproduce a published result, and compare.

    Fetches missing data from the Hugging Face hub, trains bert-base-uncased on a million Wikipedia sentences
    as the authors' scripts do, and evaluates on the seven STS sets. If interrupted, run the same command
    again to resume.

    Examples:
    - `rankencoder reproduce rankencoder-simcse --plan`
    - `rankencoder reproduce rankencoder-simcse -o reproduced --set seed=1`

    """
    from rankencoder.reproduction.reproducer import plan_reproduction
    from rankencoder.reproduction.reproducer import reproduce as run
    from rankencoder.training.config import TrainConfig

    given = given_settings({"backbone": backbone, "device": device}, set, TrainConfig)
    chosen = parse_pairs(options or [], "--option")
    planned = plan_reproduction(
        recipe, output or Path(recipe), data=data, corpus=corpus, options=chosen, **given
    )
    if plan or not as_json:
        _print_plan(planned)
    if plan:
        return
    prepare()
    verdict = run(planned, progress=True)
    print_json(verdict.as_data()) if as_json else _print_verdict(verdict)


def _print_plan(planned: Reproduction) -> None:
    """Print the published figure, the commands that do the same, and the known differences."""
    recipe = planned.recipe
    system = list(recipe.published)[-1]
    row = f"{recipe.published[system][1]}, AVG {recipe.figures(system)['AVG']:.2f}"
    lines = [f"{recipe.name}: {row}; spread: {recipe.spread}", "", *_commands(planned), ""]
    lines += ["Known to differ from the authors' run:", *(f"- {text}" for text in recipe.differs), ""]
    say(*lines)


def _commands(planned: Reproduction) -> list[str]:
    """Return the equivalent commands."""
    commands = [["data", "fetch", *planned.fetched, "-o", planned.data]]
    for folder, settings in planned.trainings.items():
        values = {name: value for name, value in settings.items() if name != "options" and value != []}
        given = [part for name in values for part in ("--set", f"{name}={_text(values[name])}")]
        given += [p for name, v in settings["options"].items() for p in ("--option", f"{name}={_text(v)}")]
        commands.append(["train", planned.corpus, "-o", folder, *given])
    results = ["--data", planned.data / "senteval", "-o", planned.folder / "evaluation"]
    commands.append(["evaluate", planned.run, *results, "--task", "sts"])
    return [f"$ rankencoder {shlex.join(map(str, words))}" for words in commands]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _print_verdict(verdict: Verdict) -> None:
    rows = []
    for system in verdict.recipe.published:
        found, published = verdict.found[system], verdict.recipe.figures(system)
        rows += [
            (system, *(f"{found[name]:.2f}" for name in published)),
            ("published", *(f"{value:.2f}" for value in published.values())),
        ]
    print_table(rows, "", *verdict.recipe.figures(system))
    say(str(verdict))
