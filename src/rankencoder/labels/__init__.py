"""Yes/no labels of pairs: which to ask for, thresholds with intervals, and P(same) for a similarity."""
