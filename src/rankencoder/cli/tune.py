"""``rankencoder tune``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankencoder.cli.console import console, is_watched, prepare, print_json, print_table
from rankencoder.cli.options import AnyModel, BatchSize, Corpus, Dev, Device, Json, Overwrite, Size
from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.evaluation.choice import Choice, Result
    from rankencoder.tuning.diagnosis import Diagnosis
    from rankencoder.tuning.tuner import Tuned

_SHOWN = 5  # of the best candidates


def tune(
    model: AnyModel,
    dev: Dev = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write the chosen RankEncoder to.")
    ] = None,
    corpus: Corpus = None,
    size: Size = 10_000,
    show_all: Annotated[bool, typer.Option("--all", help="Show all candidates, not only the best.")] = False,
    device: Device = None,
    batch_size: BatchSize = 32,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Choose between plain cosine, ranks and powers on your own scored pairs, by cross-validation.

    Plain cosine is kept unless another similarity is better by more than chance. Without scored pairs nothing
    is chosen: the encoder's space is described, with advice.

    Examples:
    - `rankencoder tune my-encoder --dev pairs.tsv -o tuned`

    - `rankencoder tune sentence-transformers/all-MiniLM-L6-v2 --corpus corpus.txt --dev pairs.tsv`

    - `rankencoder tune my-encoder`

    """
    if output is not None:
        _check_output(output, bool(dev), overwrite)
    prepare()
    from rankencoder.tuning.tuner import tune as choose

    tuned = choose(
        model,
        dev or [],
        corpus=corpus,
        size=size,
        device=device,
        batch_size=batch_size,
        progress=is_watched(),
    )
    if output is not None:
        tuned.save(output, overwrite=overwrite)
    if as_json:
        print_json({**tuned.to_dict(), "output": output and str(output)})
    else:
        _print(tuned, output, show_all)


def _check_output(output: Path, has_dev: bool, overwrite: bool) -> None:
    """Refuse what could not be written, before the long work."""
    from rankencoder.io.storage import RUN, check_free

    if not has_dev:
        raise InputError("without --dev nothing is chosen, so there is nothing to write: leave -o out")
    check_free(output, overwrite=overwrite)
    if (output / RUN).exists():
        raise InputError(f"{output} holds a training, which would be lost: choose another name")


def _print(tuned: Tuned, output: Path | None, show_all: bool) -> None:
    out = console()
    if tuned.choice is None:
        _print_diagnosis(tuned.diagnosis)
    else:
        _print_choice(tuned.choice, show_all)
    out.print()
    text = tuned.choice.sentence() if tuned.choice else tuned.diagnosis.advice
    out.print(text, markup=False)
    if tuned.choice is None:
        return
    if output is None:
        out.print("Nothing was written: -o DIR writes the chosen RankEncoder.")
        return
    sizes = f"{tuned.model.dimension:,} dimensions, the encoder alone has {tuned.diagnosis.dimension:,}"
    out.print(f"Written to {output}: {sizes}.", soft_wrap=True, markup=False)


def _print_choice(choice: Choice, show_all: bool) -> None:
    from rich.text import Text

    rows = []
    for result in _shown(choice, show_all):
        value, low, high = (f"{100 * number:+.2f}".replace("-", "−") for number in result.gain)
        interval = "" if result is choice.cosine else f"{low} to {high}"
        name = Text(result.candidate.name, style="bold" if result.candidate == choice.chosen else "")
        rows.append((name, f"{100 * result.spearman:.2f}", value, interval, result.folds))
    print_table(rows, "similarity", "Spearman", "gain", "95% interval", "folds")
    hidden = len(choice.results) - len(rows)
    more = f"; {hidden} more candidates: --all" if hidden else ""
    console().print(
        "Spearman ×100; the gain over plain cosine, with intervals that hold for all candidates at once; how "
        f"many of the {len(choice.fold_choices)} folds chose it{more}"
    )


def _shown(choice: Choice, show_all: bool) -> list[Result]:
    """Return plain cosine, the best candidates, and ranks at their best and alone; best first."""
    ordered = sorted(choice.results, key=lambda result: -result.spearman)
    if show_all:
        return ordered
    ranks = [result for result in ordered if result.candidate.form in ("exact", "compact")]
    wanted = [choice.cosine, *ordered[:_SHOWN], *ranks[:1]]
    wanted += [result for result in ranks if result.candidate.rank_weight == 1]
    return [result for result in ordered if result in wanted]


def _print_diagnosis(found: Diagnosis) -> None:
    rows = (
        ("uniformity", f"{found.uniformity:.2f}", "near 0: all vectors alike; −4: spread evenly"),
        ("hubness", f"{found.hubness:.2f}", "0: no sentence is near to all; high: a few are"),
        ("hubness by ranks", f"{found.rank_hubness:.2f}", ""),
        ("effective rank", f"{found.effective_rank:.0f}", f"directions in use, of {found.dimension:,}"),
        ("first direction", f"{100 * found.first_share:.1f}%", "of the variance"),
        ("first ten", f"{100 * found.first_ten_share:.1f}%", "of the variance"),
        ("mean vector", f"{found.mean_norm:.2f}", "its length; near 1: all point the same way"),
    )
    print_table(rows)
    console().print(f"Measured on {found.sentences:,} sentences of the reference corpus.")
