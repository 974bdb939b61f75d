"""Search in one's own sentences: an index on disk, calibrated scores, near-duplicates."""

from __future__ import annotations

from rankencoder.search.duplicates import find_duplicates
from rankencoder.search.index import Hit, RankIndex

__all__ = ["Hit", "RankIndex", "find_duplicates"]
