"""``rankencoder train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rankencoder.cli.console import Column, Json, Overwrite, console, is_watched, print_json, quiet_libraries
from rankencoder.errors import InputError

_METHOD, _RANK, _WORK = "Method", "RankEncoder (stage 2)", "Running"
_MORE = "Beyond the paper (stage 2)"


def _option(help: str, *names: str, panel: str = "Training", **kwargs: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **kwargs)


def train(
    corpus: Annotated[
        Path | None,
        typer.Argument(help="Sentences: .txt, .jsonl, .csv, .tsv, .parquet, or a folder of them."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML or TOML file of settings; flags go before it.")
    ] = None,
    column: Column = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the interrupted training in the output folder.")
    ] = False,
    overwrite: Overwrite = False,
    backbone: Annotated[str | None, _option("Language model: folder or hub name.", panel=_METHOD)] = None,
    revision: Annotated[str | None, _option("Branch, tag or commit of a hub name.", panel=_METHOD)] = None,
    method: Annotated[
        str | None,
        _option("See: rankencoder methods; or a module:Class (the preset's).", panel=_METHOD),
    ] = None,
    option: Annotated[
        list[str] | None, _option("An option of the method, as NAME=VALUE.", panel=_METHOD)
    ] = None,
    base_encoder: Annotated[
        list[str] | None,
        _option("A finished encoder for E1, in place of stage 1; several teach together.", panel=_METHOD),
    ] = None,
    teachers: Annotated[
        list[str] | None,
        _option("Methods whose E1 teach E2, trained first (the preset's).", "--teacher", panel=_METHOD),
    ] = None,
    only_base: Annotated[bool | None, _option("Stop after stage 1.", "--only-base", panel=_METHOD)] = None,
    dev: Annotated[list[str] | None, _option("Scored pairs; the best weights on them are kept.")] = None,
    seed: Annotated[int | None, _option("Of head, order and dropout (42).")] = None,
    stage2_seed: Annotated[int | None, _option("Another one for stage 2.", "--stage2-seed")] = None,
    epochs: Annotated[float | None, _option("Passes over the sentences (the method's, mostly 1).")] = None,
    max_steps: Annotated[int | None, _option("Stop after so many steps.")] = None,
    batch_size: Annotated[int | None, _option("Sentences per step and process.")] = None,
    gradient_accumulation: Annotated[int | None, _option("Batches per step of the optimiser (1).")] = None,
    learning_rate: Annotated[float | None, _option("At the first step.")] = None,
    weight_decay: Annotated[float | None, _option("Of AdamW (the method's, mostly 0).")] = None,
    warmup_steps: Annotated[
        float | None, _option("Steps in which the learning rate rises; below 1, a share of all.")
    ] = None,
    max_grad_norm: Annotated[float | None, _option("Longer gradients are cut (1).")] = None,
    max_length: Annotated[int | None, _option("Tokens of a sentence that training sees (mostly 32).")] = None,
    max_seq_length: Annotated[int | None, _option("Tokens that the encoder reads (128).")] = None,
    precision: Annotated[str | None, _option("fp16, bf16 or fp32; on a CPU always fp32.")] = None,
    preset: Annotated[
        str | None, _option("best, paper or authors-code (best; paper if you choose how).", panel=_RANK)
    ] = None,
    rank_loss_weight: Annotated[
        float | None, _option("λ_train of Eq. 6 (0.05; best 10).", panel=_RANK)
    ] = None,
    lower: Annotated[float | None, _option("τ_l, the least rank similarity learnt.", panel=_RANK)] = None,
    upper: Annotated[float | None, _option("τ_u, the largest.", panel=_RANK)] = None,
    combine: Annotated[str | None, _option("max or sum of the losses.", panel=_RANK)] = None,
    diagonal: Annotated[
        str | None, _option("Pair a sentence with itself: auto, always, never.", panel=_RANK)
    ] = None,
    student: Annotated[str | None, _option("Whose cosines learn: encoder or head.", panel=_RANK)] = None,
    reference_size: Annotated[int | None, _option("Sentences of the reference corpus.", panel=_RANK)] = None,
    reference_seed: Annotated[int | None, _option("Draws another reference corpus.", panel=_RANK)] = None,
    target: Annotated[
        str | None,
        _option("E2 learns E1's ranks (paper), cosine (best) or a power, say -0.25.", panel=_MORE),
    ] = None,
    listwise: Annotated[
        str | None, _option("Learn the order in a batch too: listnet (best) or listmle.", panel=_MORE)
    ] = None,
    listwise_weight: Annotated[float | None, _option("Weight of that loss (1).", panel=_MORE)] = None,
    listwise_temperature: Annotated[float | None, _option("Its temperature (0.05).", panel=_MORE)] = None,
    neighbors: Annotated[
        int | None, _option("Put so many near neighbours of a sentence into its batch (0).", panel=_MORE)
    ] = None,
    rounds: Annotated[
        int | None, _option("E2 becomes the next E1, at most so often (1).", panel=_MORE)
    ] = None,
    rank_weight: Annotated[
        float | None, _option("λ of Eq. 7, of the written RankEncoder (0.1).", panel=_RANK)
    ] = None,
    form: Annotated[str | None, _option("Its form: exact, compact or linear.", panel=_RANK)] = None,
    logging_steps: Annotated[int | None, _option("Steps between log entries (10).", panel=_WORK)] = None,
    eval_steps: Annotated[
        int | None, _option("Steps between looks at dev (mostly 125).", panel=_WORK)
    ] = None,
    patience: Annotated[int | None, _option("Stop after so many looks without a gain.", panel=_WORK)] = None,
    save_steps: Annotated[int | None, _option("Steps between checkpoints (500).", panel=_WORK)] = None,
    report_to: Annotated[
        list[str] | None, _option("Also log to tensorboard, trackio or wandb.", panel=_WORK)
    ] = None,
    cuda_graphs: Annotated[
        bool | None, _option("Replay steps as CUDA graphs, on a GPU (yes).", panel=_WORK)
    ] = None,
    compile: Annotated[
        bool | None, _option("Compile the layers of those steps: for long runs (no).", panel=_WORK)
    ] = None,
    workers: Annotated[int | None, _option("Processes that make batches.", panel=_WORK)] = None,
    device: Annotated[str | None, _option("cpu leaves a GPU alone.", panel=_WORK)] = None,
    as_json: Json = False,
) -> None:
    """Train a sentence encoder on unlabelled text: by the recipe that did best for us, or by the paper's.

    By default ConSERT and PromptBERT train an E1 each, and both teach E2 (--preset best). With --method, or
    any other setting of how to train, all else is the paper's: E1 by that method, E2 by E1's ranks.

    Writes OUTPUT/encoder (E2) and OUTPUT/base (E1), ordinary SentenceTransformers, OUTPUT/rankencoder (E2
    with its reference corpus), a picture of the losses, a record, and train.yaml, which repeats the run.

    Examples:
    - `rankencoder train corpus.txt --backbone bert-base-uncased -o my-run`

    - `rankencoder train corpus.txt --backbone bert-base-uncased --method simcse -o the-papers`

    - `rankencoder train --resume -o my-run`

    - `rankencoder train --config my-run/train.yaml --seed 1 -o other-run`

    """
    given = {name: value for name, value in locals().items() if value not in (None, [])}
    for name in ("corpus", "output", "config", "resume", "overwrite", "as_json", "option"):
        given.pop(name, None)
    if option:
        given["options"] = _parse_options(option)
    quiet_libraries()
    from rankencoder.training import train as run_training
    from rankencoder.training.gather import is_first_process

    run = run_training(
        corpus, output, config=config, resume=resume, overwrite=overwrite, progress=is_watched(), **given
    )
    if not is_first_process():
        return
    if as_json:
        print_json({"output": str(run.folder), **{k: v for k, v in run.record.items() if k != "history"}})
    else:
        _print(run)


def _parse_options(pairs: list[str]) -> dict[str, Any]:
    import yaml

    options: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise InputError(f"--option {pair!r} is not of the form NAME=VALUE")
        try:
            options[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise InputError(f"--option {pair!r}: {value!r} is no value") from error
    return options


def _stage_line(name: str, stage: dict[str, Any]) -> str:
    best = stage["best"]
    score = f", dev {100 * best['dev']:.2f} at step {best['step']:,}" if best else ""
    steps = f"{stage['steps']:,} steps in {stage['seconds']:,.0f} s"
    return f"{name}: {steps} ({stage['milliseconds_per_step']:.1f} ms each){score}"


def _print(run: Any) -> None:
    show = console().print
    config = run.record["config"]
    taught = f", taught by {' and '.join(config['teachers'])}" if config["teachers"] else ""
    show(f"recipe: {config['preset']} ({config['method']}{taught})", markup=False)
    for name, teacher in run.record.get("teachers", {}).items():
        show(_stage_line(f"teacher {name}", teacher["stages"][0]))
    for stage in run.record["stages"]:
        show(_stage_line(f"stage {stage['stage']}", stage))
    if run.record["config"]["combine"] == "max" and run.record["rank_larger"] == 0:
        text = "the rank loss was never the larger one (Eq. 6), so that E2 is E1's training once more"
        show(f"{text}: --combine sum lets it count", markup=False)
    if (pairs := run.record.get("pairs_per_batch")) is not None:
        counts = f"{pairs['neighbors']:,.0f} ({pairs['random']:,.0f} at random)"
        show(f"pairs that stage 2 learns from, a batch: {counts}")
    rounds = run.record.get("rounds", {"rounds": []})
    for ended in rounds["rounds"] if len(rounds["rounds"]) > 1 else []:
        kept = ", kept" if ended["number"] == rounds["kept"] else ""
        figure = "change in rank similarities" if ended["dev"] is None else "dev"
        value = f"{ended['change']:.4f}" if ended["dev"] is None else f"{100 * ended['dev']:.2f}"
        show(f"round {ended['number']}: {figure} {value}{kept}")
    show(f"{run.encoder}: the encoder, an ordinary SentenceTransformer", markup=False, soft_wrap=True)
    if (run.folder / "rankencoder").exists():
        text = f"{run.folder / 'rankencoder'}: the same with its reference corpus (Eq. 7)"
        show(text, markup=False, soft_wrap=True)
