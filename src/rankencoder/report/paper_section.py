"""The figures that the RankEncoder paper publishes, for those who ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankencoder.evaluation.sts_data import SEVEN
from rankencoder.report import paper_scores
from rankencoder.report.document import Cell, Group, Section, Table


def paper_section() -> Section:
    """Tabulate the published figures of BERT-base."""
    sets = [*SEVEN, "AVG"]
    seeds = [
        (name, [Cell(f"{mean:.1f}", f"± {spread:.1f}") for mean, spread in values])
        for name, values in paper_scores.STS_SEEDS.items()
    ]
    lead = f"{paper_scores.SOURCE}. {paper_scores.NOT_COMPARABLE}"
    return Section(
        "papers",
        "The paper’s figures",
        lead,
        [
            Table("Spearman ×100", ["", *sets], [_published(paper_scores.STS)]),
            Table("Spearman ×100, three seeds", ["", *sets], [Group("", seeds)]),
        ],
    )


def _published(scores: Mapping[str, Sequence[float]]) -> Group:
    return Group("", [(name, [Cell(f"{value:.2f}") for value in values]) for name, values in scores.items()])
