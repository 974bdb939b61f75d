"""A model over HTTP: OpenAI's embeddings, similarities, explanations and search."""
