"""``rankencoder threshold``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import prepare, print_json, print_table, say
from rankencoder.cli.options import OPENING, Json
from rankencoder.errors import InputError

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder
    from rankencoder.labels.threshold_curve import ThresholdCurve
    from rankencoder.model import RankEncoder


def threshold(
    model: Annotated[str, typer.Argument(help="A RankEncoder, a training run, any encoder, or an index.")],
    labels: Annotated[Path, typer.Argument(help="Pairs labeled yes/no: by label, or .tsv, .csv, .jsonl.")],
    precision: Annotated[
        float | None,
        typer.Option(min=0.01, max=0.999, help="Lowest threshold with this precision. [default: 0.9]"),
    ] = None,
    recall: Annotated[
        float | None, typer.Option(min=0.01, max=0.999, help="Highest threshold with this recall.")
    ] = None,
    f1: Annotated[bool, typer.Option("--f1", help="Threshold with the highest F1.")] = False,
    curve: Annotated[Path | None, typer.Option(help="Plot precision and recall to this SVG file.")] = None,
    opening: Opening = OPENING,
    as_json: Json = False,
) -> None:
    """Find the similarity threshold above which pairs mean the same, with intervals.

    The precision or recall that you ask for holds with 90% confidence; intervals are 95%. Stores the curve
    with the model or index: other commands then print P(same), and `duplicates` takes `--precision`. If no
    threshold qualifies, stores the curve for P(same) all the same, and exits with 1.

    Examples:
    - `rankencoder threshold my-encoder labels.tsv --precision 0.9`
    - `rankencoder threshold my-index labels.tsv --f1 --curve curve.svg`

    """
    if sum((precision is not None, recall is not None, f1)) > 1:
        raise InputError("choose one of --precision, --recall and --f1")
    if curve is not None and curve.suffix.lower() != ".svg":
        raise InputError(f"--curve {curve} must end in .svg")
    from rankencoder.labels.fitted_curve import fit_curve
    from rankencoder.labels.threshold_curve import STORED

    opened, folder = _open(model, opening)
    fitted = fit_curve(opened, labels)
    if recall is not None:
        at, wanted = fitted.for_recall(recall), f"recall at least {recall:g}, 90% sure"
    elif f1:
        at, wanted = fitted.best_f1(), "highest F1"
    else:
        precision = 0.9 if precision is None else precision
        at, wanted = fitted.for_precision(precision), f"precision at least {precision:g}, 90% sure"
    if folder is not None:
        fitted.save(folder)
    if curve is not None:
        from rankencoder.labels.threshold_curve import draw_curve

        draw_curve(fitted, at, curve)
    chosen = None if at is None else float(fitted.thresholds[at])
    if as_json:
        print_json({"threshold": chosen, "at": at, "wanted": wanted, **fitted.to_dict()})
    else:
        _print(fitted, at, wanted, labels, precision)
        if folder is None:
            say(f"not stored: {model} is not a folder; name an index of it, or build a RankEncoder from it")
        else:
            say(f"stored{' for P(same)' if at is None else ''} in {folder / STORED}")
    if at is None:
        raise typer.Exit(1)


def _open(model: str, opening: Opening) -> tuple[RankEncoder | Encoder, Path | None]:
    """Open a model, or the model of an index, and return where its curve is stored."""
    from rankencoder.search.index_folder import CONFIG

    if (Path(model) / CONFIG).exists():
        prepare()
        from rankencoder.search.rank_index import RankIndex

        return RankIndex.load(model, **opening).model, Path(model)
    prepare(model)
    from rankencoder.labels.fitted_curve import curve_folder
    from rankencoder.model import open_model

    return open_model(model, **opening), curve_folder(model)


def _print(
    fitted: ThresholdCurve, at: int | None, wanted: str, labels: Path, precision: float | None
) -> None:
    if at is not None:
        rows: list[tuple[Any, ...]] = [("threshold", f"{fitted.thresholds[at]:.4f}", wanted)]
        for name, band in (("precision", fitted.precision), ("recall", fitted.recall)):
            interval = f"95% interval {band.low[at]:.3f} to {band.high[at]:.3f}"
            rows.append((name, f"{band.value[at]:.3f}", interval))
        print_table([*rows, ("answers", fitted.answers, labels)])
        return
    say(f"no threshold has {wanted}, on {fitted.answers} answers")
    if precision is None:
        return
    say(f"the best: from {fitted.describe(fitted.most_precise())}")
    if (more := fitted.more_for_precision(precision)) is None:
        say(f"more answers will hardly help: no threshold seems to have precision {precision:g}")
    else:
        say(f"about {more} more answers may be enough: run `rankencoder label` again")
