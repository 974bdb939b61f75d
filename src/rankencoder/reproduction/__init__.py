"""Reproduce published results and compare with them."""
