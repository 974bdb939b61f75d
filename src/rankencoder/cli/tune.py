"""``rankencoder tune`` and ``rankencoder advise``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import prepare, print_json, print_table, say
from rankencoder.cli.options import OPENING, READING_TEXT, AnyModel, Corpus, Dev, Json, Overwrite, Size
from rankencoder.errors import InputError
from rankencoder.io.read_options import ReadOptions

if TYPE_CHECKING:
    from rankencoder.evaluation.choice import Choice

_COMMANDS: dict[str, str] = {
    "label": "rankencoder label {model} {corpus} -o labels.tsv",
    "tune": "rankencoder tune {model} {draw}{dev}-o tuned",
    "threshold": "rankencoder threshold {model} {first} --precision 0.9",
    "index": "rankencoder index {model} {corpus} -o my-index && rankencoder threshold my-index {first} "
    "--precision 0.9",
    "distill": "rankencoder distill {corpus} --teacher {model} --student static {dev}-o fast",
}


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


def advise(
    model: AnyModel,
    corpus: Annotated[str, typer.Argument(help="Sentences: file, folder or URL (see build).")],
    dev: Dev = None,
    reading: ReadOptions = READING_TEXT,
    opening: Opening = OPENING,
    as_json: Json = False,
) -> None:
    """Recommend a next step in five lines: keep cosine, distill, fuse, or label pairs.

    Reads 1,000 sentences of the corpus and, with --dev, your pairs. The last line is the command to run next.

    Examples:
    - `rankencoder advise my-encoder corpus.txt`
    - `rankencoder advise sentence-transformers/all-MiniLM-L6-v2 corpus.txt --dev labels.tsv`

    """
    prepare(model)
    from rankencoder.encoder_sources import rankencoder_folder
    from rankencoder.labels.fitted_curve import curve_folder
    from rankencoder.tuning.advisor import advise as look

    advice = look(model, corpus, dev or [], column=reading, **opening)
    quoted = [shlex.quote(str(file)) for file in dev or ()]
    is_kept = advice.step != "threshold" or curve_folder(model) is not None  # a hub model stores no curve
    next_step = _COMMANDS[advice.step if is_kept else "index"].format(
        model=shlex.quote(model),
        corpus=shlex.quote(corpus),
        dev="".join(f"--dev {file} " for file in quoted),
        first="".join(quoted[:1]),
        draw="" if rankencoder_folder(model) else f"--corpus {shlex.quote(corpus)} ",
    )
    if as_json:
        print_json({**advice.to_dict(), "next": next_step})
        return
    print_table(advice.lines.items())
    say(f"next        {next_step}")
