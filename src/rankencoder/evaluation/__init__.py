"""Score encoders on STS sets and on the user's own pairs."""
