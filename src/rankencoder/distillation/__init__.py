"""Distil encoders into one better or faster encoder, on unlabelled text."""
