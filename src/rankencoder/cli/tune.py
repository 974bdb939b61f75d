"""``rankencoder tune``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import prepare, print_json, print_table, say
from rankencoder.cli.options import OPENING, AnyModel, Corpus, Dev, Json, Overwrite, Size
from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.evaluation.choice import Choice


def tune(
    model: AnyModel,
    dev: Dev = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Save the chosen RankEncoder.")
    ] = None,
    corpus: Corpus = None,
    size: Size = 10_000,
    opening: Opening = OPENING,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Choose between plain cosine, ranks and powers on your pairs, by cross-validation.

    Compares by Spearman correlation on scored pairs, by average precision on yes/no labels. Keeps plain
    cosine unless another similarity is significantly better. Without pairs, prints advice only.

    Examples:
    - `rankencoder tune my-encoder --dev pairs.tsv -o tuned`
    - `rankencoder tune sentence-transformers/all-MiniLM-L6-v2 --corpus corpus.txt --dev pairs.tsv`
    - `rankencoder tune my-encoder`

    """
    if output is not None:
        if not dev:
            raise InputError("nothing to write without pairs: pass --dev FILE, or omit -o")
        from rankencoder.io.storage import check_free

        check_free(output, overwrite=overwrite)
    prepare()
    from rankencoder.tuning.tuner import tune as choose

    tuned = choose(model, dev or [], corpus=corpus, size=size, **opening, progress=True)
    if output is not None:
        tuned.save(output, overwrite=overwrite)
    if as_json:
        print_json({**tuned.to_dict(), "output": output and str(output)})
        return
    if tuned.choice is not None:
        _print_candidates(tuned.choice)
    say(str(tuned))
    if output is not None:
        base = tuned.model.form.reference.shape[1]
        say(f"Written to {output}: {tuned.model.dimension:,} dimensions; the encoder alone has {base:,}.")
    elif tuned.choice is not None:
        say("Add -o DIR to write the chosen RankEncoder.")


def _print_candidates(choice: Choice) -> None:
    from rich.text import Text

    rows = []
    for result in sorted(choice.results, key=lambda result: -result.score):
        value, low, high = (f"{100 * number:+.2f}".replace("-", "−") for number in result.gain)
        interval = "" if result is choice.cosine else f"{low} to {high}"
        name = Text(result.name, style="bold" if result is choice.chosen else "")
        rows.append((name, f"{100 * result.score:.2f}", value, interval, result.folds))
    print_table(rows, "similarity", choice.metric, "gain", "95% interval", "folds")
    say(
        f"{choice.metric} ×100; gain over plain cosine, with simultaneous 95% intervals; folds: how many of "
        f"{choice.folds} chose it\n"
    )
