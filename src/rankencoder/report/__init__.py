"""Reports: the results of evaluations on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError

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
    papers: bool = False,
) -> str | Path:
    """Report which encoder and which similarity is best, and whether the difference is real.

    :param results: The results of `evaluate`: its files, folders of them, or
        the returned objects.
    :param output: The file to write; replaced where it exists.
    :param format: "html", one self-contained page, or "md", GitHub-flavored Markdown.
    :param papers: Add the figures that the RankEncoder paper publishes for BERT-base.
    :return: The file, or the text if none was given.
    :raises InputError: If there are no results, or matplotlib or Jinja2 is not installed.
    """
    from rankencoder.io.storage import new_file
    from rankencoder.report.rendering import render
    from rankencoder.report.sections import report_sections

    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}: choose from {', '.join(FORMATS)}")
    given: Any = getattr(results, "results", results)  # an Evaluation has them
    given = [given] if isinstance(given, (str, Path, Mapping)) else given
    try:
        title, sections = report_sections(_read(given), papers=papers)
        text = render(sections, title, format)
    except InputError:
        raise
    except _DAMAGED as error:
        where = ", ".join(str(one) for one in given if isinstance(one, (str, Path)))
        raise InputError(
            f"cannot report on {where}: a result is damaged ({type(error).__name__}: {error}); evaluate again"
        ) from error
    if output is None:
        return text
    with new_file(output) as new:
        new.write_text(text, encoding="utf-8", newline="\n")
    return Path(output)


def _read(given: Sequence[str | Path | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return results from any of these; those of one model are merged, later parts first."""
    from rankencoder.evaluation.results import add_result, read_results

    found: dict[str, dict[str, Any]] = {}
    for one in given:
        for result in [dict(one)] if isinstance(one, Mapping) else read_results([one]):
            name = result["model"]["fingerprint"]
            new = {key: value for key, value in result.items() if value}
            found[name] = add_result(found[name], new) if name in found else result
    if not found:
        raise InputError("there are no results to report: evaluate a model first")
    return list(found.values())
