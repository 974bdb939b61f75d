"""Search in one's own sentences: an index on disk, calibrated scores, near-duplicates."""

from __future__ import annotations

from rankencoder.search.hits import Hit
from rankencoder.search.near_duplicates import find_duplicates
from rankencoder.search.rank_index import RankIndex

__all__ = ["Hit", "RankIndex", "find_duplicates"]
