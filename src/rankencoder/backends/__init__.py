"""Backends that compute vectors: torch, or a CPU runtime with the converted model."""
