"""Tokenize thousands of sentences at a time, without padding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Encoding

FILL = {"attention_mask": 0, "token_type_ids": 0}
"""Padding of these features; `input_ids` are padded with the tokenizer's own token."""

_SAME = {"attention_mask": 1, "token_type_ids": 0}
_AT_ONCE = 512  # sentences of a call of the tokenizer's core: it blocks other threads to return its results
_COPIED = 20  # entries of a vocabulary that are copied in the time that the core saves for a sentence
_SAMPLED = 8192  # sentences to find long ones among
_UNPADDED: Any = {"common": {"return_tensors": None}, "text": {"padding": False}}
_ODD = (
    "",
    " \t\n",
    " The NAÏVE ﬁ e\u0301 <b>中文</b>  😀\u200b ",
    "[CLS] a [MASK] <s> <mask> </s>",
    "long " * 2000,
)


class UnknownTokensError(Exception):
    """A tokenizer returns features other than ids, mask and token types."""


@dataclass
class RaggedTokens:
    """Tokens of some sentences without padding, and their other features.

    They are in arrays, because thousands of lists would start full garbage collections.

    :param lengths: Tokens of each sentence.
    :param tokens: Features of all tokens, one sentence after another; a number stands for an array of it.
    :param others: Other features of the model's input.

    >>> ragged = RaggedTokens(np.array([1, 2, 3]), {"input_ids": np.array([5, 6, 6, 7, 7, 7])}, {})
    >>> ragged.select(np.array([2, 0]))["input_ids"].tolist()
    [7, 7, 7, 5]
    """

    lengths: np.ndarray
    tokens: dict[str, np.ndarray | int]
    others: dict[str, Any]

    def select(self, rows: np.ndarray) -> dict[str, np.ndarray | int]:
        """Return the tokens of some sentences, in this order."""
        lengths, ends = self.lengths[rows], np.cumsum(self.lengths)[rows]
        places = np.arange(lengths.sum()) + np.repeat(ends - np.cumsum(lengths), lengths)
        return {name: v if isinstance(v, int) else v[places] for name, v in self.tokens.items()}


def join_ids(encodings: list[Encoding]) -> tuple[np.ndarray, np.ndarray]:
    """Return the token ids of some sentences, one sentence after another, and the tokens of each."""
    return _join(row.ids for row in encodings), np.array([len(row) for row in encodings])


def _join(rows: Iterable[list[int]]) -> np.ndarray:
    return np.fromiter(chain.from_iterable(rows), np.int64)


def find_tokenizer(model: SentenceTransformer, sentences: list[str]) -> Callable[[list[str]], RaggedTokens]:
    """Return a function that tokenizes sentences without padding, like the model's ``preprocess``.

    For many sentences this is the tokenizer's Rust core, which uses all CPU cores; the Python code around it
    uses one, and takes longer. If the core cannot be copied, or tokenizes a sample and some odd sentences
    differently, ``preprocess`` is used.
    """
    whole = partial(_preprocess, model)
    core = getattr(model.tokenizer, "backend_tokenizer", None)
    if core is None or model.modalities != ["text"] or len(sentences) * _COPIED < core.get_vocab_size():
        return whole  # image models load images whose addresses are given as sentences
    sample = [*_ODD, *sorted(sentences[:_SAMPLED], key=len)[::-64]]  # longest first
    try:
        expected = whole(sample)  # this also sets the core's truncation
        own = type(core).from_str(core.to_str())  # a copy, whose truncation nobody else changes
    except Exception:  # the libraries raise nothing else, for unknown characters or components in Python
        return whole
    own.no_padding()
    own.encode_special_tokens = core.encode_special_tokens
    same = {name: number for name, number in _SAME.items() if name in expected.tokens}

    def tokens(part: list[str]) -> RaggedTokens:
        calls = (part[start : start + _AT_ONCE] for start in range(0, len(part), _AT_ONCE))
        joined = [join_ids(own.encode_batch_fast(some)) for some in calls]
        ids, lengths = map(np.concatenate, zip(*joined, strict=True))
        return RaggedTokens(lengths, {**same, "input_ids": ids}, expected.others)

    return tokens if are_same(tokens(sample), expected) else whole


def are_same(found: RaggedTokens, expected: RaggedTokens) -> bool:
    """Return whether a tokenizer finds the expected tokens."""
    number = expected.lengths.sum()
    return np.array_equal(found.lengths, expected.lengths) and all(
        np.array_equal(np.broadcast_to(found.tokens[name], number), np.broadcast_to(value, number))
        for name, value in expected.tokens.items()
    )


def _preprocess(model: SentenceTransformer, sentences: list[str]) -> RaggedTokens:
    """Tokenize by the model's own ``preprocess``."""
    features = model.preprocess(sentences, processing_kwargs=_UNPADDED)
    rows = {name: value for name, value in features.items() if isinstance(value, list)}
    if not {"input_ids", "attention_mask"} <= rows.keys() <= {"input_ids", *FILL}:
        raise UnknownTokensError
    lengths = np.array([len(row) for row in rows["input_ids"]])
    others = {name: value for name, value in features.items() if name not in rows}
    return RaggedTokens(lengths, {name: _join(value) for name, value in rows.items()}, others)
