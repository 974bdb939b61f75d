"""What a search finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic_core import to_jsonable_python

from rankencoder.search.calibration import Calibration


@dataclass(frozen=True)
class Hit:
    """A sentence that was found.

    :param score: Its similarity to the query, Eq. 7 for a RankEncoder.
    :param percentile: The per cent of random pairs that this is higher than; None without a calibration.
    """

    id: str
    text: str
    score: float
    percentile: float | None
    columns: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold: dates as ISO text, bytes as URL-safe base64, NaN and inf as None."""
        plain = to_jsonable_python(asdict(self), bytes_mode="base64", inf_nan_mode="null", fallback=str)
        return dict(plain)

    @classmethod
    def of_row(cls, row: dict[str, Any], calibration: Calibration | None) -> Hit:
        """Make a hit of a row that a table's search returned."""
        columns = dict(row)
        score = 1 - columns.pop("_distance")
        percentile = float(calibration.percentile(score)) if calibration else None
        return cls(columns.pop("id"), columns.pop("text"), score, percentile, columns)
