"""Search hits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rankencoder.io.row_files import plain
from rankencoder.labels.threshold_curve import ThresholdCurve
from rankencoder.search.calibration import Calibration
from rankencoder.search.index_rows import NUMBER


@dataclass(frozen=True)
class Hit:
    """A sentence found by a search.

    :param id: The id as it was given, a string or a whole number.
    :param score: Its similarity to the query; of a RankEncoder, that of Eq. 7.
    :param percentile: The percentage of random pairs below the score; None without a calibration.
    :param probability: P(same), that it means the same as the query; None without labels (see `threshold`).
    """

    id: str | int
    text: str
    score: float
    percentile: float | None
    columns: dict[str, Any] = field(default_factory=dict)
    probability: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON (see `plain`)."""
        return {**asdict(self), "columns": plain(self.columns)}

    def to_row(self, query: str) -> dict[str, Any]:
        """Return the hit as a row of a table, where its own column "score" becomes "score_"."""
        row: dict[str, Any] = {"query": query, "id": self.id, "text": self.text, "score": self.score}
        row["percentile"] = self.percentile
        row |= {} if self.probability is None else {"probability": self.probability}
        for name, value in self.columns.items():
            free = name
            while free in row or (free != name and free in self.columns):
                free += "_"
            row[free] = value
        return row

    @classmethod
    def of_row(
        cls, row: dict[str, Any], calibration: Calibration | None, curve: ThresholdCurve | None = None
    ) -> Hit:
        """Make a hit of a row that `LanceRows.search` found."""
        columns = dict(row)
        score = 1 - columns.pop("_distance")
        percentile = float(calibration.percentile(score)) if calibration else None
        probability = None if curve is None else float(curve.p_same(score))
        text, number = columns.pop("id"), columns.pop(NUMBER, None)
        name = text if number is None else number
        return cls(name, columns.pop("text"), score, percentile, columns, probability)
