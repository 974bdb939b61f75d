"""``rankencoder advise``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import prepare, print_json, print_table, say
from rankencoder.cli.options import OPENING, READING_TEXT, AnyModel, Dev, Json
from rankencoder.io.read_options import ReadOptions

if TYPE_CHECKING:
    from rankencoder.tuning.advisor import Step

_COMMANDS: dict[Step | Literal["index"], str] = {
    "label": "rankencoder label {model} {corpus} -o labels.tsv",
    "tune": "rankencoder tune {model} {draw}{dev}-o tuned",
    "threshold": "rankencoder threshold {model} {first} --precision 0.9",
    "index": "rankencoder index {model} {corpus} -o my-index && rankencoder threshold my-index {first} "
    "--precision 0.9",
    "distill": "rankencoder distill {corpus} --teacher {model} --student static {dev}-o fast",
}


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
