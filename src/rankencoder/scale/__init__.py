"""Encode a corpus, or sample a reference corpus from it, on a Ray cluster."""
