"""``rankencoder duplicates``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rankencoder.backends.opening import Running
from rankencoder.cli.console import prepare, print_json, print_table, say
from rankencoder.cli.options import OPENING, READING, Json, Overwrite
from rankencoder.errors import InputError
from rankencoder.io.read_options import DEFAULTS, ReadOptions

if TYPE_CHECKING:
    from rankencoder.search.near_duplicates import Duplicates

_Rule = Literal["first", "longest", "central"]
_SAVED = 1_000_000  # pairs, or all at the threshold if they are more


def duplicates(
    corpus: Annotated[Path, typer.Argument(help="Sentences (see build), an index, or pairs saved by -o.")],
    model: Annotated[str | None, typer.Option(help="Encoder or RankEncoder; an index has its own.")] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="Similarity (0.9) or percentile of random pairs (99.99%). "
            "[default: reached by one in a million unrelated pairs]"
        ),
    ] = None,
    precision: Annotated[
        float | None, typer.Option(min=0.01, max=0.999, help="Threshold with this precision on your labels.")
    ] = None,
    against: Annotated[Path | None, typer.Option(help="Find overlap with this corpus or index.")] = None,
    representative: Annotated[_Rule, typer.Option(help="Row to keep.")] = "first",
    kept: Annotated[Path | None, typer.Option(help="Write rows to keep: .parquet, .jsonl or .csv.")] = None,
    removed: Annotated[Path | None, typer.Option(help="Write removed rows, each with its reason.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the pairs: .parquet, .jsonl, .csv, or a folder to reuse."),
    ] = None,
    groups: Annotated[bool, typer.Option("--groups", help="Print groups instead of pairs.")] = False,
    show: Annotated[int, typer.Option(min=0, help="Pairs or groups to print.")] = 50,
    reading: ReadOptions = READING,
    opening: Running = OPENING,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Find and remove near-duplicate sentences, with calibrated scores.

    Compares all pairs of sentences. Scores are calibrated on random pairs from the model's reference corpus,
    or from this corpus if there is none.

    Examples:
    - `rankencoder duplicates questions.csv --model my-encoder --kept kept.csv -o found`
    - `rankencoder duplicates my-index -o pairs.parquet`
    - `rankencoder duplicates found --threshold 0.95 --groups`
    - `rankencoder duplicates my-index --precision 0.95`
    - `rankencoder duplicates test.txt --against my-index`

    """
    from rankencoder.io.row_files import check_row_file
    from rankencoder.io.storage import FOUND, check_free
    from rankencoder.search.near_duplicates import Duplicates, find_duplicates

    if absent := [side for side in (corpus, against) if side and not side.exists()]:
        raise InputError(f"no such file or folder: {absent[0]}")
    outputs = [path.resolve() for path in (kept, removed, output) if path]
    if len(set(outputs)) < len(outputs):
        raise InputError("--kept, --removed and --output must be different files")
    for file in filter(None, (kept, removed)):
        check_row_file(file, overwrite=overwrite)
    if output:
        check_free(output, overwrite=overwrite)
    found = Duplicates.load(corpus) if (corpus / FOUND).exists() else None
    if groups and (found.against if found else against):
        raise InputError("there are no groups between two corpora: leave --groups out")
    if found:
        if model or against or precision or reading != DEFAULTS:
            raise InputError(f"{corpus} holds saved pairs: only --threshold can be changed")
        found = found.at(threshold or found.threshold)
    else:
        prepare(model)
        found = find_duplicates(
            corpus,
            model,
            threshold=threshold,
            precision=precision,
            against=against,
            column=reading,
            hold=_SAVED if output else 0,
            **opening,
            progress=True,
        )
    _write(found, output, (kept, removed), representative, overwrite)
    if as_json:
        print_json(found.to_dict(representative))
        return
    _print_groups(found, show, representative) if groups else _print_pairs(found, show)
    _print_summary(found, by_default=threshold is None and precision is None)


def _write(
    found: Duplicates, output: Path | None, sides: tuple[Path | None, ...], rule: str, overwrite: bool
) -> None:
    from rankencoder.io.row_files import ROW_FORMATS, write_rows

    if output and output.suffix.lower() in ROW_FORMATS:
        write_rows(output, found.to_rows(), overwrite=overwrite)
    elif output:
        found.save(output, overwrite=overwrite)
    for path, rows in zip(sides, found.split(rule), strict=True) if any(sides) else ():
        if path:
            write_rows(path, rows, overwrite=overwrite)


def _print_pairs(found: Duplicates, show: int) -> None:
    from rich.table import Column

    rows = []
    for pair in found.pairs[:show]:
        numbers = (f"{pair.similarity:.4f}", found.calibration.percent(pair.similarity))
        a, b = found.records.entry(pair.a), (found.against or found.records).entry(pair.b)
        rows.append((*numbers, a["places"][0], a["text"]))
        rows.append(("", "", b["places"][0], b["text"]))
    where = Column("where", overflow="fold")  # ids must not be truncated
    if rows:
        print_table(rows, "similarity", "random pairs below", where, "sentence")


def _print_groups(found: Duplicates, show: int, rule: str) -> None:
    (best, _), places = found.representatives(rule), found.places
    for group in found.groups()[:show]:
        number = sum(len(places[i]) for i in group)
        title = f"{number} sentences, {len(group)} different"
        say(f"{number} documents" if found.records.has_passages else title)
        for i in sorted(group, key=lambda i: best[i] >= 0):
            first, *more = places[i]
            times = f" (and {len(more)} more)" if more else ""
            fate = "remove" if best[i] >= 0 else "keep  "
            say(f"  {fate}  {first}{times}: {found.sentences[i]}")


def _print_summary(found: Duplicates, *, by_default: bool) -> None:
    from rankencoder.formatting import plural

    size = f"{len(found.sentences):,} different sentences"
    if found.records.has_passages:
        size = f"{found.records.documents.max() + 1:,} documents"
    among = f"of {size} with {len(found.against.texts):,} others" if found.against else f"among {size}"
    meaning = f"{found.calibration.describe(found.threshold)} of {found.calibration.source}"
    pairs = plural(len(found.pairs), "pair")
    parts = [f"{pairs} {among}, from similarity {found.threshold:.4f} on ({meaning})"]
    if found.repeated:
        parts.append(f"{len(found.repeated):,} sentences are repeated word for word")
    if found.records.skipped:
        parts.append(f"{found.records.skipped:,} empty or over-long lines were left out")
    if by_default:
        parts.append("this threshold is a guess: `rankencoder label` finds one with a known precision")
    say("; ".join(parts))
