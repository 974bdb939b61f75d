"""`reproduce`: what produced the published rows, as far as it is known, run again and compared."""
