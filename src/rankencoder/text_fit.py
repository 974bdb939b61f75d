"""Check whether a model fits a text by length and language, and split texts by its tokens."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from typing import Any

from rankencoder.errors import InputError, TextWarning
from rankencoder.io.passages import TokenWindows
from rankencoder.io.read_options import ReadOptions

_SAMPLE, _LETTERS = 256, 500  # texts to check for their language, and the minimum number of letters
# all-MiniLM-L6-v2: English and code 0.05, Polish 0.23, Japanese 0.36, Greek and Arabic over 0.9
_FOREIGN = 0.35
# single tokens even in models that know the language
_IDEOGRAPHS = re.compile("[\u2e80-\ud7ff\U00020000-\U0003ffff]")


class TextFit:
    """Counts texts that a model truncates, and samples texts to check their language.

    :param model: An encoder or a RankEncoder; without a tokenizer, all texts fit.
    """

    def __init__(self, model: Any) -> None:
        self.encoder: Any = getattr(model, "encoder", model)
        self.limit = self.encoder.count_tokens(["a"])[1]
        self.number = self.cut = 0
        self.sample: list[str] = []

    def add(self, texts: list[str]) -> None:
        """Check texts to encode."""
        self.number += len(texts)
        self.sample += texts[: _SAMPLE - len(self.sample)]
        # a token has at least one byte
        long = [text for text in texts if len(text.encode()) + 2 > self.limit]
        self.cut += sum(count > self.limit for count in self.encoder.count_tokens(long)[0]) if long else 0

    def warn(self) -> None:
        """Warn about truncated texts, and about a language that the model does not seem to know."""
        name = self.encoder.name
        if self.cut:
            warnings.warn(
                f"{self.cut:,} of {self.number:,} texts were cut because {name} reads {self.limit:,} tokens: "
                "set `split` to encode them as passages",
                TextWarning,
                stacklevel=3,
            )
        tokenizer = core_tokenizer(self.encoder)
        if tokenizer is not None and (share := foreign_share(tokenizer, self.sample)) > _FOREIGN:
            warnings.warn(
                f"{share:.0%} of the text is unknown to {name} or read letter by letter: does it know this "
                "language? Try a multilingual model",
                TextWarning,
                stacklevel=3,
            )


def foreign_share(tokenizer: Any, texts: list[str]) -> float:
    """Return the share of characters in unknown or single-letter tokens; 0 for a short sample."""
    settings = json.loads(tokenizer.to_str())["model"]
    unknown = tokenizer.token_to_id(settings.get("unk_token") or "")
    unknown = settings.get("unk_id") if unknown is None else unknown
    total = foreign = 0
    for text in texts:
        found, last = tokenizer.encode(text, add_special_tokens=False), None
        for token, span in zip(found.ids, found.offsets, strict=True):
            piece = text[slice(*span)]
            is_letter = len(piece) == 1 and piece.isalpha() and not _IDEOGRAPHS.match(piece)
            is_foreign = token == unknown or is_letter or (span == last and len(piece) == 1)
            total, foreign, last = total + len(piece), foreign + is_foreign * len(piece), span
    return foreign / total if total >= _LETTERS else 0.0


def core_tokenizer(encoder: Any) -> Any:
    """Return a copy of an encoder's tokenizer without truncation and padding, or None."""
    tokenizer: Any = getattr(encoder.model, "tokenizer", None)
    core = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(core, "to_str"):
        return None
    own = type(core).from_str(core.to_str())
    own.no_truncation()
    own.no_padding()
    return own


def with_tokenizer(column: Any, model: Any) -> ReadOptions:
    """Return options in which a split such as "128-tokens" has the model's tokenizer."""
    options = ReadOptions.of(column)
    encoder: Any = getattr(model, "encoder", model)
    if not isinstance(options.split, str) or not (found := re.fullmatch(r"(\d+)-tokens", options.split)):
        return options
    tokenizer, limit = core_tokenizer(encoder), encoder.count_tokens(["a"])[1]
    if tokenizer is None:
        raise InputError(f"{encoder.name} has no tokenizer to split by: set `split` to 'sentences'")
    if int(found[1]) > limit:
        raise InputError(f"{encoder.name} reads {limit:,} tokens: set `split` to {limit}-tokens or fewer")
    return replace(options, split=TokenWindows(tokenizer, int(found[1])))
