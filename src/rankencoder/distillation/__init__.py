"""Distill encoders into one better or faster encoder, on unlabeled text."""
