"""Serve models over HTTP: OpenAI-compatible embeddings, similarity, explanations and search."""
