"""Encode, index and sample on a Ray cluster.

`pieces` is a separate module so that machines that only read do not import encoders.
"""
