"""Search: an index on disk, calibrated scores, near-duplicates."""
