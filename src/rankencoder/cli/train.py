"""``rankencoder train``, with an option for each setting of a training."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from rankencoder.cli.console import console, is_watched, log_to_stderr, prepare, print_json
from rankencoder.cli.options import Json, Overwrite
from rankencoder.errors import InputError, nearest
from rankencoder.training.config import TrainConfig, default_text

_FLAGS = {"teachers": ["--teacher"], "only_base": ["--only-base"]}
_NO_OPTION = ("corpus", "output", "options")  # given in another way

_TYPES: dict[Any, Any] = {int: int | None, float: float | None, bool: bool | None, list: list[str] | None}


def _help_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        for option in context.command.params:
            option.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit()


def train(
    corpus: Annotated[
        Path | None,
        typer.Argument(help="Sentences: .txt, .jsonl, .csv, .tsv, .parquet, or a folder of them."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML or TOML file of settings; options override it.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the interrupted training in the output folder.")
    ] = False,
    overwrite: Overwrite = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print the steps of the training and stop.")] = False,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option", help="Option of the method, as NAME=VALUE. Repeatable.", rich_help_panel="Method"
        ),
    ] = None,
    set: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting, as NAME=VALUE. Repeatable.")
    ] = None,
    help_all: Annotated[
        bool, typer.Option("--help-all", is_eager=True, callback=_help_all, help="Show all settings.")
    ] = False,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Train a sentence encoder on unlabelled text.

    By default ConSERT and PromptBERT each train an encoder E1, and both teach E2 (--preset best). With
    --method X that method trains E1, and E2 learns E1's ranks as in the paper (--preset paper).

    Writes OUTPUT/encoder (E2) and OUTPUT/base (E1), ordinary SentenceTransformers, OUTPUT/rankencoder (E2
    with its reference corpus), a plot of the losses, a record, and train.yaml, which repeats the run.

    Examples:
    - `rankencoder train corpus.txt --backbone bert-base-uncased -o my-run`

    - `rankencoder train corpus.txt --backbone bert-base-uncased --method simcse -o the-papers`

    - `rankencoder train --resume -o my-run`

    - `rankencoder train --config my-run/train.yaml --seed 1 -o other-run`

    """
    given = {name: value for name, value in settings.items() if value not in (None, [])}
    given |= (chosen := _parse_pairs(set or [], "--set"))
    if missing := [name for name, value in chosen.items() if value is None]:
        raise InputError(f"--set {missing[0]}: no value given")
    for name in chosen:
        if name not in TrainConfig.model_fields:
            raise InputError(f"--set {name}: unknown setting:{nearest(name, TrainConfig.model_fields)}")
    corpus, output = given.pop("corpus", corpus), given.pop("output", output)
    if options:
        given["options"] = _parse_pairs(options, "--option")
    prepare()
    from rankencoder.training.gather import is_first_process
    from rankencoder.training.run import plan_training
    from rankencoder.training.run import train as run_training

    if plan and resume:
        raise InputError("--plan shows a new training: leave --resume out")
    if plan:
        console().print(
            str(plan_training(corpus, output, config=config, **given)), markup=False, soft_wrap=True
        )
        return

    with log_to_stderr("rankencoder.training"):
        run = run_training(
            corpus, output, config=config, resume=resume, overwrite=overwrite, progress=is_watched(), **given
        )
    if not is_first_process():
        return
    if as_json:
        print_json({"output": str(run.folder), **{k: v for k, v in run.record.items() if k != "history"}})
    else:
        _print(run)


def _parse_pairs(pairs: list[str], flag: str) -> dict[str, Any]:
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


def _option_of(name: str) -> inspect.Parameter:
    field = TrainConfig.model_fields[name]
    about: Any = field.json_schema_extra
    option = typer.Option(
        *_FLAGS.get(name, ()),
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


def _add_options(command: Any) -> None:
    """Give the command an option for each setting, in place of its keyword arguments."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    made = [_option_of(name) for name in TrainConfig.model_fields if name not in _NO_OPTION]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    parameters = [*own[:-1], *made, own[-1]]
    command.__signature__ = inspect.Signature(parameters, return_annotation=None)
    command.__annotations__ = {p.name: p.annotation for p in parameters}


_add_options(train)


def _stage_line(name: str, stage: dict[str, Any]) -> str:
    from rankencoder.training.loop.stage import describe_kept_start

    best = stage["best"]
    score = f", dev {100 * best['dev']:.2f} at step {best['step']:,}" if best else ""
    if kept := describe_kept_start(stage):
        score = f", {kept}"
    steps = f"{stage['steps']:,} steps in {stage['seconds']:,.0f} s"
    return f"{name}: {steps} ({stage['milliseconds_per_step']:.1f} ms each){score}"


def _print(run: Any) -> None:
    show = console().print
    for name, teacher in run.record.get("teachers", {}).items():
        show(_stage_line(f"teacher {name}", teacher["stages"][0]), soft_wrap=True)
    for stage in run.record["stages"]:
        show(_stage_line(f"stage {stage['stage']}", stage), soft_wrap=True)
    if run.record["config"]["combine"] == "max" and run.record["rank_larger"] == 0:
        given = run.record["config"]["base_encoder"]
        what = "E2 learnt nothing from its base encoder" if given else "E2 is E1's training once more"
        text = f"the rank loss was never the larger one (Eq. 6), so that {what}"
        show(f"{text}: --combine sum lets it count", markup=False)
    show(f"{run.encoder}: the encoder, an ordinary SentenceTransformer", markup=False, soft_wrap=True)
    if (run.folder / "rankencoder").exists():
        text = f"{run.folder / 'rankencoder'}: the same with its reference corpus (Eq. 7)"
        show(text, markup=False, soft_wrap=True)
