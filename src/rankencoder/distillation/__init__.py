"""Teach an encoder what others agree on, on unlabelled text."""
