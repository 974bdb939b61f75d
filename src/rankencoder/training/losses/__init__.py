"""The losses of both stages."""
