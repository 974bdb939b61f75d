"""Reports: what an evaluation found, on one page that a person can read and send on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError, nearest

if TYPE_CHECKING:
    from rankencoder.evaluation.evaluator import Evaluation

__all__ = ["FORMATS", "report"]

FORMATS = ("html", "md")
_DAMAGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def report(
    results: str | Path | Mapping[str, Any] | Evaluation | Sequence[str | Path | Mapping[str, Any]],
    output: str | Path | None = None,
    *,
    format: str = "html",
    aggregation: str = "all",
) -> str | Path:
    """Tell what an evaluation found: whether rank vectors help, what to use, and everything measured.

    :param results: What `evaluate` returned or wrote: files, folders of them, or
        the results themselves.
    :param output: The file to write; replaced where it exists.
    :param format: "html", one page that needs nothing else, or "md", GitHub-flavoured Markdown.
    :param aggregation: Of sub-sets: "all" (over all pairs, the field's convention), "mean" or "wmean".
    :return: The file, or without one the text.
    :raises InputError: If there are no results, or matplotlib or Jinja2 is not installed.
    """
    from rankencoder.evaluation.sts_figures import AGGREGATIONS

    for value, known, what in ((format, FORMATS, "format"), (aggregation, AGGREGATIONS, "aggregation")):
        if value not in known:
            raise InputError(f"unknown {what} {value!r}:{nearest(value, known)}")
    found = _read(results)
    try:
        text = _written(found, format, aggregation)
    except _DAMAGED as error:
        if isinstance(error, InputError):
            raise
        given: Any = results if isinstance(results, (list, tuple)) else [results]
        where = ", ".join(str(one) for one in given if isinstance(one, (str, Path)))
        raise InputError(
            f"cannot report on {where}: a result is damaged ({type(error).__name__}: {error}); evaluate again"
        ) from error
    if output is None:
        return text
    from rankencoder.io.storage import new_file

    with new_file(output) as new:
        new.write_text(text, encoding="utf-8", newline="\n")
    return Path(output)


def _written(results: list[dict[str, Any]], format: str, aggregation: str) -> str:
    from rankencoder.report.sections import document

    name, made = document(results, aggregation)
    if format == "html":
        from rankencoder.report.report_page import to_html

        return to_html(made, name)
    from rankencoder.report.markdown import to_markdown

    return to_markdown(made, name)


def _read(results: Any) -> list[dict[str, Any]]:
    """Return results, from wherever they are; those of the very same model as one, later parts first."""
    from rankencoder.evaluation.results import add_result, read_results

    given = getattr(results, "results", results)  # of an Evaluation
    if isinstance(given, (str, Path, Mapping)):
        given = [given]
    found: dict[str, dict[str, Any]] = {}
    for one in given:
        for result in [dict(one)] if isinstance(one, Mapping) else read_results([one]):
            name = result["model"]["fingerprint"]
            new = {key: value for key, value in result.items() if value}
            found[name] = add_result(found[name], new) if name in found else result
    if not found:
        raise InputError("there are no results to report: rankencoder evaluate makes them")
    return list(found.values())
