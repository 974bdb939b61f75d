"""Everything that the paper measures, on any encoder and on the user's own data."""
