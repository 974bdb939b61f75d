"""``rankencoder train``, with an option for each setting of a training."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankencoder.cli.console import prepare, say
from rankencoder.cli.options import Json
from rankencoder.cli.setting_options import MethodOptions, parse_pairs, print_record, run_options
from rankencoder.errors import InputError
from rankencoder.training.config import TrainConfig, default_text

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
        _print(run)


def _print(run: Any) -> None:
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
