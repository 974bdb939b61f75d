"""The demo: distill all-MiniLM-L6-v2 on the docstrings of the Python standard library."""
