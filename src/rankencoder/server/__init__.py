"""A RankEncoder over HTTP: OpenAI's embeddings, similarities, explanations and search."""

import logging

LOG = logging.getLogger("rankencoder.server")
