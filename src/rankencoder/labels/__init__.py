"""Yes/no labels of pairs: what to ask, thresholds with intervals, and P(same) for a similarity."""
