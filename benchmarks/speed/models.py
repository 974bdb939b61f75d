"""What is timed: encoders of two sizes and sentences, also on a machine that has neither data nor weights.

Where all-MiniLM-L6-v2 or ``../shared`` are missing, random weights of the same size and the docstrings of
Python's standard library stand in. Times do not depend on what weights say, but they do on lengths, so that
each result names its data and model.
"""

from __future__ import annotations

import functools
import random
import re
import string
import tempfile
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sts import SHARED, wiki_sentences

from rankencoder import Reference
from rankencoder.demo.docstrings import sentences, standard_library
from rankencoder.demo.encoder import bundled_encoder
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError

SIZES: dict[str, dict[str, Any]] = {
    "22M": {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536},
    "BERT-base": {"hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072},
}
_VOCABULARY = 30_522
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_SAMPLE = 512  # encoded sentences whose mean and covariance a made-up reference corpus has


def texts(number: int) -> tuple[str, list[str]]:
    """Return the name of the data and so many different sentences."""
    if (SHARED / "data/wiki").exists():
        return "Wikipedia sentences", list(dict.fromkeys(wiki_sentences(2 * number)))[:number]
    found = list(dict.fromkeys(islice(sentences(standard_library()), 20_000)))
    random.Random(0).shuffle(found)
    while len(found) < number:  # pairs of sentences are sentences too
        found += [f"{a} {b}" for a, b in pairwise(found)]
    return "docstrings of Python's standard library", found[:number]


@functools.cache
def model_folder(size: str) -> tuple[str, str]:
    """Return the name of a model of this size, and the folder it lies in."""
    if size == "22M":
        try:
            return "all-MiniLM-L6-v2", str(bundled_encoder())
        except InputError:
            pass
    return f"a BERT of {size} size with random weights", str(_random_bert(size))


def _random_bert(size: str) -> Path:
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = Path(tempfile.mkdtemp(prefix="rankencoder-bench-"))
    letters = string.ascii_lowercase + string.digits + string.punctuation
    words = Counter(w for text in texts(10_000)[1] for w in re.findall("[a-z]{2,}", text.lower()))
    tokens = [*_SPECIAL, *letters, *(f"##{c}" for c in letters), *words][:_VOCABULARY]
    BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=512).save_pretrained(
        folder
    )
    torch.manual_seed(0)
    config = BertConfig(vocab_size=_VOCABULARY, num_attention_heads=12, **SIZES[size])
    BertModel(config).save_pretrained(folder)
    return folder


def load(size: str, device: str, *, half: bool = False) -> Any:
    """Return a SentenceTransformer of this size that reads 128 tokens."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(model_folder(size)[1], device=device)
    model.max_seq_length = 128
    return model.half() if half else model


def reference(encoder: Encoder, sentences: list[str], n: int) -> Reference:
    """Return a reference corpus with the mean and covariance of some encoded sentences; n need no encoder."""
    sample = encoder(sentences[:_SAMPLE]).cpu().numpy()
    generator = np.random.default_rng(0)
    spread = np.linalg.cholesky(np.cov(sample.T) + 1e-6 * np.eye(sample.shape[1])).astype(np.float32)
    vectors = generator.standard_normal((n, sample.shape[1]), dtype=np.float32) @ spread.T + sample.mean(0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Reference([f"sentence {i}" for i in range(n)], vectors, encoder.probe(), encoder.name)
