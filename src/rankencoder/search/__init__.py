"""Search in one's own sentences: an index on disk, calibrated scores, near-duplicates."""

from __future__ import annotations

from rankencoder.search.duplicates import find_duplicates
from rankencoder.search.hits import Hit
from rankencoder.search.index import RankIndex

__all__ = ["Hit", "RankIndex", "find_duplicates"]
