"""``rankencoder demo``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankencoder.cli.console import console, prepare, print_table
from rankencoder.cli.options import Device, Overwrite
from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.demo.docstrings import Function
    from rankencoder.demo.retrieval import Result
    from rankencoder.distillation.distiller import Distillation
    from rankencoder.encoders import Encoder
    from rankencoder.model import RankEncoder

FUNCTIONS = 1000  # to find, at most
FEWEST = 600  # sentences to learn from: one batch, and what is held out
PAIRS = (
    ("Return the names of the files in a folder.", "List what a directory contains."),
    ("Raise an error if the value is not a number.", "Sort the list in place."),
)
LOADING = """from sentence_transformers import SentenceTransformer
model = SentenceTransformer({folder!r})
vectors = model.encode(["Delete a file from the disk.", "Remove a directory."])"""


def demo(
    code: Annotated[
        Path | None,
        typer.Argument(help="Folder of Python files to learn from. [default: the standard library]"),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Your own encoder, in place of all-MiniLM-L6-v2.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Keep the encoder in this folder.")
    ] = None,
    device: Device = None,
    overwrite: Overwrite = False,
) -> None:
    """Distill a fast encoder from this machine's own docstrings: offline, in a few minutes.

    Teaches a static encoder what all-MiniLM-L6-v2 knows, and measures how well both find a function's
    docstring by its name. Then makes a RankEncoder of it and measures whether ranks help.

    Example: `rankencoder demo -o my-encoder`
    """
    start = time.perf_counter()
    if output is not None:
        from rankencoder.io.storage import check_free

        check_free(output, overwrite=overwrite, training=True)
    prepare()
    from rankencoder.demo import docstrings
    from rankencoder.demo.encoder import bundled_encoder
    from rankencoder.encoders import Encoder
    from rankencoder.model_card import short_name

    folder = code or docstrings.standard_library()
    tasks = docstrings.spread_functions(docstrings.functions(folder), FUNCTIONS)
    text = docstrings.training_text(folder, tasks)
    if len(text) < FEWEST:
        raise InputError(f"{folder} has {len(text):,} docstring sentences to learn from: at least {FEWEST}")
    teacher = Encoder(encoder or bundled_encoder(), device=device)
    teacher.name = short_name(encoder or "all-MiniLM-L6-v2")
    out = console()
    out.rule("1. Distill")
    out.print(
        f"Teaching a static encoder what {teacher.name} makes of {len(text):,} docstring sentences and "
        f"function names in {folder}",
        markup=False,
    )
    with _kept(output) as kept:
        settings = {"device": device or "auto", "overwrite": overwrite}
        run = _distill(text, kept, encoder or str(bundled_encoder()), **settings)
        _print_distilled(run, teacher, tasks)
        out.print("It is an ordinary SentenceTransformer:" if output else "Keep it with -o my-encoder, then:")
        loading = LOADING.format(folder=f"{output or 'my-encoder'}/encoder")
        out.print(loading, markup=False, soft_wrap=True, style="green")
        out.rule("2. Do ranks help?")
        model = _build(run, text, device)
        if output is not None:
            out.print(
                f"Kept in {output}: try rankencoder explain {output} 'one sentence' 'another'", markup=False
            )
        _print_ranks(model, tasks)
    out.print(f"{time.perf_counter() - start:.0f} seconds in all.", style="dim")


@contextmanager
def _kept(output: Path | None) -> Iterator[Path]:
    """Give the folder to write, which is a temporary one if it is not to be kept."""
    from tempfile import TemporaryDirectory

    if output is not None:
        yield output
        return
    with TemporaryDirectory(prefix="rankencoder-demo-") as temporary:
        yield Path(temporary) / "my-encoder"


def _distill(text: list[str], output: Path, teacher: str, **settings: Any) -> Distillation:
    from rankencoder.distillation.distill_summary import describe_agreement
    from rankencoder.distillation.distiller import distill

    run = distill(text, output, teacher=teacher, student="static", keep_start=True, progress=True, **settings)
    seconds = run.record["seconds"]
    console().print(
        f"Start made in {seconds['start']:.0f} s, {len(text):,} vectors of the teacher in "
        f"{seconds['teachers']:.0f} s, taught in {seconds['teaching']:.0f} s."
    )
    console().print(describe_agreement(run.record).capitalize() + ".", markup=False)
    return run


def _print_distilled(run: Distillation, teacher: Encoder, tasks: list[Function]) -> None:
    """Print how well teacher and student find functions, how fast they are, and how large."""
    from rankencoder.demo.retrieval import score_encoders
    from rankencoder.encoders import Encoder

    out, record = console(), run.record
    out.print(f"Finding the docstrings of {len(tasks):,} other functions by their names, such as")
    out.print(f"'{tasks[0].name}' -> '{tasks[0].purpose}':", markup=False)
    students = {"static, untaught": run.folder / "start", "static, taught": run.encoder}
    encoders = {teacher.name: teacher} | {
        name: Encoder(folder, device=str(teacher.device)) for name, folder in students.items()
    }
    costs = [record["teachers"][0], record["student"]["start"], record]
    sizes = [*(cost["megabytes"] for cost in costs[:2]), record["student"]["megabytes"]]
    results, speeds = score_encoders(encoders, tasks), [cost["sentences_per_second"] for cost in costs]
    rows = [
        [*row, f"{speed:,.0f}", f"{size:.1f}"]
        for row, speed, size in zip(_rows(results), speeds, sizes, strict=True)
    ]
    print_table(rows, "encoder", "first", "MRR", "to teacher", "95% interval", "sentences/s", "MB")
    _print_key("to teacher: difference in MRR")
    share = results[-1].reciprocal_rank / results[0].reciprocal_rank
    out.print(f"[bold]{share:.0%} of the teacher's MRR at {speeds[-1] / speeds[0]:,.0f} times its speed.[/]")


def _build(run: Distillation, text: list[str], device: str | None) -> RankEncoder:
    """Make a RankEncoder of the student, in the folder of its distillation."""
    from rankencoder.encoders import Encoder
    from rankencoder.model import RankEncoder

    model = RankEncoder(Encoder(run.encoder, device=device), text, progress=False)
    model.save(run.folder / "rankencoder")
    console().print(
        f"The distilled encoder with {len(model.reference):,} of these sentences as its reference corpus is "
        f"a RankEncoder: it also compares how two sentences rank them ({model.form.name} form, fidelity to "
        f"exact ranks: {model.fidelity})."
    )
    return model


def _print_ranks(model: RankEncoder, tasks: list[Function]) -> None:
    """Print what two sentences share, how well ranks, blends and powers do, and what that means."""
    from rankencoder.cli.compare import print_explanation
    from rankencoder.demo.retrieval import score_ranks

    out = console()
    for a, b in PAIRS:
        print_explanation(model.explain(a, b), "ranks", show=3)
        out.print()
    results = score_ranks(model, tasks)
    rows = [
        [*row, "" if r is results[0] else r.gain.verdict]
        for row, r in zip(_rows(results), results, strict=True)
    ]
    print_table(rows, "similarity", "first", "MRR", "gain", "95% interval", "verdict")
    _print_key("gain: in MRR over plain cosine")
    out.print(f"[bold]{_verdict(results)}[/]")
    out.print("Ranks do not always help: measure on your own sentences before you use them.", style="dim")


def _rows(results: list[Result]) -> Iterator[list[str]]:
    for r in results:
        gain = [f"{r.gain.value:+.3f}", f"{r.gain.low:+.3f} to {r.gain.high:+.3f}"]
        yield [r.name, f"{r.first:.1%}", f"{r.reciprocal_rank:.3f}", *(["", ""] if r is results[0] else gain)]


def _print_key(difference: str) -> None:
    console().print(
        "first: the right docstring is the nearest. MRR: mean reciprocal rank of the right one. "
        f"{difference}.",
        style="dim",
    )


def _verdict(results: list[Result]) -> str:
    best = max(results, key=lambda r: r.reciprocal_rank)
    lead = f"{best.gain.value:+.3f}"
    if best is results[0]:
        return (
            "Plain cosine wins here: with this encoder and these sentences, leave ranks out (rank_weight 0)."
        )
    if best.gain.verdict == "better":
        return f"'{best.name}' wins here, by {lead} in mean reciprocal rank over plain cosine."
    return f"'{best.name}' is ahead by {lead}, within chance: plain cosine does as well here."
