"""Digests that identify encoders, for caches and resumable work."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

_DIGITS = 2  # decimals of probe vectors: other hardware changes the seventh


def digest(texts: Iterable[str]) -> str:
    """Return the SHA-256 of a sequence of texts."""
    sha = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        sha.update(len(data).to_bytes(8, "little"))
        sha.update(data)
    return sha.hexdigest()


def vectors_digest(vectors: np.ndarray) -> str:
    """Return a digest of vectors that is the same on all hardware."""
    rounded = np.rint(vectors * 10**_DIGITS).astype(np.int64)
    return hashlib.sha256(repr(vectors.shape).encode() + rounded.tobytes()).hexdigest()


def model_digest(model: Any) -> str:
    """Return the SHA-256 of a SentenceTransformer's weights, modules, tokenizer and prompts."""
    import torch

    sha = hashlib.sha256(repr(model).encode())
    settings = [model.prompts, model.default_prompt_name, model.max_seq_length, model.truncate_dim]
    sha.update(json.dumps(settings).encode())
    backend = getattr(getattr(model, "tokenizer", None), "backend_tokenizer", None)
    if backend is not None:
        definition = json.loads(backend.to_str())
        for left_by_last_call in ("truncation", "padding"):
            definition.pop(left_by_last_call, None)
        sha.update(json.dumps(definition).encode())
    for name, tensor in sorted(model.state_dict().items()):
        sha.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        sha.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return sha.hexdigest()
