"""``rankencoder demo``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankencoder.cli.console import console, is_watched, prepare, print_table
from rankencoder.cli.options import Overwrite, Size

if TYPE_CHECKING:
    from rankencoder.demo.retrieval import Result

PAIRS = (
    ("Return the names of the files in a folder.", "List what a directory contains."),
    ("Wait until the thread has finished.", "Block until the child process terminates."),
    ("Raise an error if the value is not a number.", "Sort the list in place."),
)


def demo(
    encoder: Annotated[
        str | None, typer.Option(help="Your own encoder, in place of all-MiniLM-L6-v2.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Keep the RankEncoder in this folder.")
    ] = None,
    size: Size = 10_000,
    functions: Annotated[int, typer.Option(min=2, help="Functions to find.")] = 1000,
    overwrite: Overwrite = False,
) -> None:
    """Try it on the docstrings of the Python standard library: offline, in a few minutes.

    Builds a RankEncoder on this machine's own docstrings, explains some similarities, and measures whether
    ranks help to find a function's docstring by its name.

    Example: `rankencoder demo -o my-first-encoder`
    """
    out = console()
    if output is not None:
        from rankencoder.io.storage import check_free

        check_free(output, overwrite=overwrite)
    prepare()
    from rankencoder.cli.compare import print_explanation
    from rankencoder.demo import docstrings
    from rankencoder.demo.encoder import bundled_encoder
    from rankencoder.demo.retrieval import score
    from rankencoder.encoders import Encoder
    from rankencoder.model import RankEncoder
    from rankencoder.reference import Reference

    start = time.perf_counter()
    library = docstrings.standard_library()
    loaded = Encoder(encoder or bundled_encoder())
    loaded.name = encoder or "all-MiniLM-L6-v2"
    out.rule("1. Build")
    out.print(
        f"Reading the docstrings of {library}, encoding {size:,} of their sentences with {loaded.name}",
        markup=False,
    )
    reference = Reference.build(loaded, docstrings.sentences(library), size=size, progress=is_watched())
    model = RankEncoder(loaded, reference, progress=False)
    seen, duplicates = reference.counts["seen"], reference.counts["duplicates"]
    out.print(
        f"{seen:,} sentences read, {duplicates:,} duplicates dropped, {len(reference):,} kept as the "
        f"reference corpus. {model.form.name} form, fidelity to exact ranks: {model.fidelity}."
    )
    if output is not None:
        model.save(output, overwrite=overwrite)
        out.print(
            f"Kept in {output}: try rankencoder explain {output} 'one sentence' 'another'", markup=False
        )
    out.rule("2. Why are two sentences similar?")
    for a, b in PAIRS:
        print_explanation(model.explain(a, b), "ranks", show=4)
        out.print()
    out.rule("3. Does it help? Finding a function's docstring by its name")
    tasks = docstrings.functions(library)
    tasks = tasks[:: max(1, len(tasks) // functions)][:functions]
    out.print(f"{len(tasks):,} functions, e.g. '{tasks[0].name}' -> '{tasks[0].purpose}'", markup=False)
    _print_results(score(model, tasks))
    out.print(f"{time.perf_counter() - start:.0f} seconds in all.", style="dim")


def _print_results(results: list[Result]) -> None:
    out = console()
    rows = []
    for r in results:
        row = [r.name, f"{r.first:.1%}", f"{r.reciprocal_rank:.3f}"]
        if r is not results[0]:
            row += [f"{r.gain.value:+.3f}", f"{r.gain.low:+.3f} to {r.gain.high:+.3f}", r.gain.verdict]
        rows.append(row)
    print_table(rows, "similarity", "first", "MRR", "gain", "95% interval", "verdict")
    out.print(
        "first: the right docstring is the nearest. MRR: mean reciprocal rank of the right one. "
        "gain: in MRR over plain cosine.",
        style="dim",
    )
    best = max(results, key=lambda r: r.reciprocal_rank)
    lead = f"{best.gain.value:+.3f}"
    if best is results[0]:
        verdict = (
            "Plain cosine wins here: with this encoder and these sentences, leave ranks out (rank_weight 0)."
        )
    elif best.gain.verdict == "better":
        verdict = f"'{best.name}' wins here, by {lead} in mean reciprocal rank over plain cosine."
    else:
        verdict = f"'{best.name}' is ahead by {lead}, within chance: plain cosine does as well here."
    out.print(f"[bold]{verdict}[/]")
    out.print("Ranks do not always help: measure on your own sentences before you use them.", style="dim")
