"""The trainer and what it needs."""
