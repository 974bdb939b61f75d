"""``rankencoder train``, with an option for each setting of a training, and ``methods``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rankencoder.cli.console import prepare, print_json, print_table, say
from rankencoder.cli.options import Json
from rankencoder.cli.setting_options import MethodOptions, parse_pairs, print_record, run_options
from rankencoder.errors import InputError
from rankencoder.training.config import Given, TrainConfig, default_text

if TYPE_CHECKING:
    from rankencoder.training.methods.method import Family, Method

_RUN = run_options(TrainConfig, default_text)


def train(
    given: dict[str, Any] = _RUN,
    plan: Annotated[bool, typer.Option("--plan", help="Print the steps of the training and stop.")] = False,
    options: MethodOptions = None,
    as_json: Json = False,
) -> None:
    """Train a sentence encoder on unlabeled text.

    By default (--preset best), ConSERT and PromptBERT each train an encoder E1, and both teach E2. With
    --method X (--preset paper), X trains E1, and E2 learns E1's ranks as in the paper.

    Writes OUTPUT/encoder (E2) and OUTPUT/base (E1) as SentenceTransformers, OUTPUT/rankencoder (E2 with its
    reference corpus), a plot of the losses, a record, and a train.yaml that reproduces the run.

    Examples:
    - `rankencoder train corpus.txt --backbone bert-base-uncased -o my-run`
    - `rankencoder train corpus.txt --backbone bert-base-uncased --method simcse -o the-papers`
    - `rankencoder train --resume -o my-run`
    - `rankencoder train --config my-run/train.yaml --seed 1 -o other-run`

    """
    if options:
        given["options"] = parse_pairs(options, "--option")
    prepare()
    from rankencoder.training.gather import is_first_process
    from rankencoder.training.run import plan_training
    from rankencoder.training.run import train as run_training

    if plan:
        if given.pop("resume"):
            raise InputError("--plan shows a new training: omit --resume")
        del given["overwrite"]
        say(str(plan_training(**given)))
        return
    run = run_training(progress=True, **given)
    if not is_first_process():
        return
    if as_json:
        print_record(run)
    else:
        _print_run(run)


def _print_run(run: Any) -> None:
    from rankencoder.training.loop.stage import describe_choice

    teachers = run.record.get("teachers", {}).items()
    stages = {f"teacher {name}": teacher["stages"][0] for name, teacher in teachers}
    stages |= {f"stage {stage['stage']}": stage for stage in run.record["stages"]}
    for name, stage in stages.items():
        steps = f"{stage['steps']:,} steps in {stage['seconds']:,.0f} s"
        kept = describe_choice(stage)
        say(f"{name}: {steps} ({stage['milliseconds_per_step']:.1f} ms each){kept and f', {kept}'}")
    if run.record["config"]["combine"] == "max" and run.record["rank_larger"] == 0:
        given = run.record["config"]["base_encoder"]
        what = "E2 learned nothing from its base encoder" if given else "E2 repeats E1's training"
        text = f"the rank loss never exceeded the contrastive loss (Eq. 6), so {what}"
        say(f"{text}: try --combine sum")
    say(f"{run.encoder}: the encoder, an ordinary SentenceTransformer")
    if (run.folder / "rankencoder").exists():
        say(f"{run.folder / 'rankencoder'}: the encoder with its reference corpus (Eq. 7)")


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
    print_json(listed) if as_json else _print_methods(listed)


def describe(method: type[Method], backbone: Family) -> dict[str, Any]:
    """Describe a method, with its settings and options for a kind of backbone."""
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


def _print_methods(listed: dict[str, Any]) -> None:
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
