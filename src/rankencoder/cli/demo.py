"""``rankencoder demo``."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankencoder.cli.console import console, prepare, print_table, say
from rankencoder.cli.options import Device, Overwrite
from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.demo.docstrings import Function
    from rankencoder.demo.retrieval import Result
    from rankencoder.distillation.distiller import Distillation
    from rankencoder.encoders import Encoder

MAX_FUNCTIONS = 1000  # to find
MIN_SENTENCES = 600  # one batch, and what is held out
PAIR = ("Return the names of the files in a folder.", "List what a directory contains.")
LOADING = """from sentence_transformers import SentenceTransformer
model = SentenceTransformer({folder!r})
vectors = model.encode(["Delete a file from the disk.", "Remove a directory."])"""


def demo(
    code: Annotated[
        Path | None, typer.Argument(help="Folder of Python files. [default: the standard library]")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="Your encoder, instead of all-MiniLM-L6-v2.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder to save the encoder.")] = None,
    device: Device = None,
    overwrite: Overwrite = False,
) -> None:
    """Distill a fast encoder on this machine's own docstrings: offline, in minutes.

    Distills all-MiniLM-L6-v2 into a static encoder, and measures how well each finds a function's docstring
    by its name. Then builds a RankEncoder from the student, and measures whether ranks help.

    Example: `rankencoder demo -o my-encoder`
    """
    start = time.perf_counter()
    if output is not None:
        from rankencoder.io.storage import check_free

        check_free(output, overwrite=overwrite, training=True)
    prepare()
    from tempfile import TemporaryDirectory

    from rankencoder.demo import docstrings
    from rankencoder.demo.encoder import bundled_encoder
    from rankencoder.distillation.distiller import distill
    from rankencoder.encoders import Encoder
    from rankencoder.model_card import short_name

    folder = code or docstrings.standard_library()
    tasks = docstrings.spread_functions(docstrings.functions(folder), MAX_FUNCTIONS)
    text = docstrings.training_text(folder, tasks)
    if len(text) < MIN_SENTENCES:
        raise InputError(f"{folder} has only {len(text):,} docstring sentences: {MIN_SENTENCES} are needed")
    teacher = Encoder(encoder or bundled_encoder(), device=device)
    teacher.name = short_name(encoder or "all-MiniLM-L6-v2")
    console().rule("1. Distill")
    say(
        f"Distilling {teacher.name} into a static encoder, on {len(text):,} docstring sentences and function "
        f"names from {folder}"
    )
    with TemporaryDirectory(prefix="rankencoder-demo-") as temporary:
        run = distill(
            text,
            output or Path(temporary) / "my-encoder",
            teacher=encoder or str(bundled_encoder()),
            student="static",
            keep_start=True,
            device=device or "auto",
            overwrite=overwrite,
            progress=True,
        )
        _print_distilled(run, teacher, tasks, len(text))
        say("It is an ordinary SentenceTransformer:" if output else "Keep it with -o my-encoder, then:")
        loading = LOADING.format(folder=f"{output or 'my-encoder'}/encoder")
        console().print(loading, markup=False, soft_wrap=True, style="green")
        console().rule("2. Do ranks help?")
        _print_ranks(run, text, device, tasks)
        if output is not None:
            say(f"Try rankencoder explain {shlex.quote(str(output))} 'one sentence' 'another'")
    say(f"{time.perf_counter() - start:.0f} seconds in total.")


def _print_distilled(run: Distillation, teacher: Encoder, tasks: list[Function], sentences: int) -> None:
    """Print how well teacher and student find functions, how fast they are, and how large."""
    from rankencoder.demo.retrieval import score_encoders
    from rankencoder.distillation.distill_summary import describe_agreement
    from rankencoder.encoders import Encoder

    record, seconds = run.record, run.record["seconds"]
    say(
        f"Student initialized in {seconds['start']:.0f} s, {sentences:,} sentences encoded by the teacher in "
        f"{seconds['teachers']:.0f} s, student taught in {seconds['teaching']:.0f} s.",
        describe_agreement(record).capitalize() + ".",
        f"Finding the docstrings of {len(tasks):,} other functions by their names, such as",
        f"'{tasks[0].name}' -> '{tasks[0].purpose}':",
    )
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
    say("first: the right docstring is the nearest. MRR: its mean reciprocal rank.")
    share = results[-1].reciprocal_rank / results[0].reciprocal_rank
    say(f"{share:.0%} of the teacher's MRR at {speeds[-1] / speeds[0]:,.0f} times its speed.")


def _print_ranks(run: Distillation, text: list[str], device: str | None, tasks: list[Function]) -> None:
    """Build a RankEncoder from the student, and print how well its ranks do."""
    from rankencoder.cli.compare import print_explanation
    from rankencoder.demo.retrieval import score_ranks
    from rankencoder.encoders import Encoder
    from rankencoder.model import RankEncoder

    model = RankEncoder(Encoder(run.encoder, device=device), text, progress=False)
    model.save(run.folder / "rankencoder")
    say(
        f"With {len(model.reference):,} of these sentences as its reference corpus, the student is a "
        "RankEncoder, which also compares how two sentences rank them:"
    )
    print_explanation(model.explain(*PAIR), "ranks", show=3)
    results = score_ranks(model, tasks)
    verdicts = ["", *(result.gain.verdict for result in results[1:])]
    rows = [[*row, verdict] for row, verdict in zip(_rows(results), verdicts, strict=True)]
    print_table(rows, "similarity", "first", "MRR", "gain", "95% interval", "verdict")
    best = max(results, key=lambda result: result.reciprocal_rank)
    advice = f"use '{best.name}'" if best.gain.verdict == "better" else "keep plain cosine (rank_weight 0)"
    say(f"On this task: {advice}. Measure on your own sentences before you use ranks.")


def _rows(results: list[Result]) -> Iterator[list[str]]:
    for r in results:
        gain = [f"{r.gain.value:+.3f}", f"{r.gain.low:+.3f} to {r.gain.high:+.3f}"]
        yield [r.name, f"{r.first:.1%}", f"{r.reciprocal_rank:.3f}", *(["", ""] if r is results[0] else gain)]
