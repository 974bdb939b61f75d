"""The demo: the docstrings of the Python standard library on this very machine, and a small real encoder."""
