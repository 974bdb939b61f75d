"""What a search finds."""

from __future__ import annotations

import base64
import math
from dataclasses import asdict, dataclass, field
from typing import Any

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
        """Return what JSON can hold: dates as ISO text, bytes as base64, what is no number as None."""
        return {**asdict(self), "columns": {name: _plain(value) for name, value in self.columns.items()}}

    @classmethod
    def of_row(cls, row: dict[str, Any], calibration: Calibration | None) -> Hit:
        """Make a hit of a row that a table's search returned."""
        columns = dict(row)
        score = 1 - columns.pop("_distance")
        percentile = float(calibration.percentile(score)) if calibration else None
        return cls(columns.pop("id"), columns.pop("text"), score, percentile, columns)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
