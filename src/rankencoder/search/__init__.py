"""Search in one's own sentences: an index on disk, calibrated scores, near-duplicates."""
