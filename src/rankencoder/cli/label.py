"""``rankencoder label``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import console, harmless, prepare, say
from rankencoder.cli.options import OPENING, READING_TEXT, AnyModel
from rankencoder.errors import InputError
from rankencoder.io.read_options import ReadOptions

if TYPE_CHECKING:
    from rankencoder.labels.sitting import Sitting

_KEYS = "[y] same   [n] different   [s] skip   [u] undo   [q] stop"


def label(
    model: AnyModel,
    corpus: Annotated[Path, typer.Argument(help="Sentences: a file or folder, or an index of the model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Labels (.tsv) to write or to resume.")],
    pairs: Annotated[int, typer.Option(min=1, help="Answers to collect.")] = 120,
    precision: Annotated[float, typer.Option(min=0.5, max=0.99, help="Target precision.")] = 0.9,
    merge: Annotated[list[Path] | None, typer.Option(help="Add labels of another file. Repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the pairs.")] = 0,
    reading: ReadOptions = READING_TEXT,
    opening: Opening = OPENING,
) -> None:
    """Label pairs as same or different, for a threshold you can rely on.

    Asks about the most informative pairs. Answers are saved at once: stop at any time, and run the same
    command to resume. Without a terminal, reads one key per line from standard input.

    Examples:
    - `rankencoder label my-encoder my-index -o labels.tsv`
    - `rankencoder threshold my-index labels.tsv --precision 0.9`

    """
    if not corpus.exists():
        raise InputError(f"no such file or folder: {corpus}")
    from rankencoder.labels.sitting import Sitting
    from rankencoder.search.index_folder import CONFIG

    others = [Sitting.resume(other) for other in merge or ()]  # fail before the work
    prepare(model)
    from rankencoder.search.records import draw_pool, open_source

    sitting = Sitting.find(output, lambda: open_source(model, corpus, **opening).identity())
    if sitting is None:
        pool = draw_pool(model, corpus, column=reading, seed=seed, **opening, progress=True)
        sitting = Sitting(output, pool)
    sitting.precision = precision
    with sitting:
        for other in others:
            say(f"{sitting.merge(other):,} answers merged")
        _ask(sitting, pairs)
    number = len(sitting.given)
    say(*(f"note: {doubt}" for doubt in sitting.doubts()), f"{sitting.path}: {number} answers")
    if number < pairs:
        say("to resume, run the same command again")
    owner = str(corpus) if (corpus / CONFIG).exists() else model
    step = ["rankencoder", "threshold", owner, str(sitting.path), "--precision", f"{sitting.precision:g}"]
    say(f"next: {shlex.join(step)}")


def _ask(sitting: Sitting, pairs: int) -> None:
    """Ask until there are enough answers, no pair is left, or the labeler stops."""
    from rankencoder.labels.sitting import EVERY

    while len(sitting.given) < pairs and (asked := sitting.question()):
        console().print(f"\n{len(sitting.given) + 1} of {pairs}   {_KEYS}", style="dim", markup=False)
        say(f"  A  {asked.a}", f"  B  {asked.b}")
        key = _read_key()
        if key == "q":
            return
        before = len(sitting.given)
        if not sitting.press(key):
            say("nothing to undo")
        if len(sitting.given) > before and len(sitting.given) % EVERY == 0:
            console().print(sitting.summary(), style="dim", markup=False)


def _read_key() -> str:
    """Return the next valid key; the end of the input means stop."""
    while True:
        try:
            key = (typer.getchar() if sys.stdin.isatty() else input().strip()[:1]).lower()
        except EOFError:
            return "q"
        if len(key) == 1 and key in "ynsuq":
            return key
        if key:
            sys.stderr.write(f"{harmless(repr(key))} is not an answer: {_KEYS}\n")
