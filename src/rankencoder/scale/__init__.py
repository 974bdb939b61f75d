"""Encode, index and sample on a Ray cluster.

`pieces` is a module of its own so that machines that only read do not import encoders.
"""
