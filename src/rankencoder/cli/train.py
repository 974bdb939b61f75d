"""``rankencoder train``, with an option for each setting of a training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rankencoder.cli.console import prepare, print_json, say
from rankencoder.cli.options import Json, Overwrite
from rankencoder.cli.setting_options import (
    ConfigFile,
    HelpAll,
    Resume,
    Set,
    given_settings,
    parse_pairs,
    setting_options,
)
from rankencoder.errors import InputError
from rankencoder.training.config import TrainConfig, default_text

_SETTINGS = setting_options(
    TrainConfig,
    default_text,
    flags={"teachers": ["--teacher"], "only_base": ["--only-base"], "no_header": ["--no-header"]},
    left_out=("corpus", "output", "options"),
)


def train(
    corpus: Annotated[
        Path | None,
        typer.Argument(help="Sentences: .txt, .jsonl, .csv, .tsv, .parquet, or a folder of them."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write.")] = None,
    config: ConfigFile = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print the steps of the training and stop.")] = False,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option", help="Option of the method, as NAME=VALUE. Repeatable.", rich_help_panel="Method"
        ),
    ] = None,
    set: Set = None,
    help_all: HelpAll = False,
    settings: dict[str, Any] = _SETTINGS,
    as_json: Json = False,
) -> None:
    """Train a sentence encoder on unlabeled text.

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
    given = given_settings(settings, set, TrainConfig)
    corpus, output = given.pop("corpus", corpus), given.pop("output", output)
    if options:
        given["options"] = parse_pairs(options, "--option")
    prepare()
    from rankencoder.training.gather import is_first_process
    from rankencoder.training.run import plan_training
    from rankencoder.training.run import train as run_training

    if plan and resume:
        raise InputError("--plan shows a new training: leave --resume out")
    if plan:
        say(str(plan_training(corpus, output, config=config, **given)))
        return
    run = run_training(
        corpus, output, config=config, resume=resume, overwrite=overwrite, progress=True, **given
    )
    if not is_first_process():
        return
    if as_json:
        print_json({"output": str(run.folder), **{k: v for k, v in run.record.items() if k != "history"}})
    else:
        _print(run)


def _stage_line(name: str, stage: dict[str, Any]) -> str:
    from rankencoder.training.loop.stage import describe_choice

    kept = describe_choice(stage)
    steps = f"{stage['steps']:,} steps in {stage['seconds']:,.0f} s"
    return f"{name}: {steps} ({stage['milliseconds_per_step']:.1f} ms each){kept and f', {kept}'}"


def _print(run: Any) -> None:
    for name, teacher in run.record.get("teachers", {}).items():
        say(_stage_line(f"teacher {name}", teacher["stages"][0]))
    for stage in run.record["stages"]:
        say(_stage_line(f"stage {stage['stage']}", stage))
    if run.record["config"]["combine"] == "max" and run.record["rank_larger"] == 0:
        given = run.record["config"]["base_encoder"]
        what = "E2 learned nothing from its base encoder" if given else "E2 is E1's training once more"
        text = f"the rank loss was never the larger one (Eq. 6), so that {what}"
        say(f"{text}: --combine sum lets it count")
    say(f"{run.encoder}: the encoder, an ordinary SentenceTransformer")
    if (run.folder / "rankencoder").exists():
        say(f"{run.folder / 'rankencoder'}: the same with its reference corpus (Eq. 7)")
