"""Split long texts into passages: sentences or windows of tokens, with their document and position."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rankencoder.errors import InputError, MissingExtraError
from rankencoder.io.files import Sentence
from rankencoder.io.read_options import ReadOptions

# columns of a passage; the last two are its position and the number of its document's passages
PASSAGE = ("id", "document", "passage", "passages")


def split_passages(rows: Iterator[Sentence], options: ReadOptions) -> Iterator[Sentence]:
    """Yield the passages of texts, each with its document: the row's id, or file and line."""
    split = make_splitter(options.split)
    for row in rows:
        columns = dict(row.columns or {})
        document = columns.get(options.id_name)
        if document is None:
            document = f"{row.source}:{row.line}"
        for name in PASSAGE[1:]:
            if name in columns:
                raise InputError(f"{row.place}: `split` adds a column {name!r}: rename yours")
        types = None
        if row.types is not None:
            types = {name: kind for name, kind in row.types.items() if name not in PASSAGE}
            if options.id_name in row.types:
                types["document"] = row.types[options.id_name]
        pieces = [piece for piece in map(str.strip, split(row.text)) if piece] if row.text else [row.text]
        for number, piece in enumerate(pieces):
            own = dict(zip(PASSAGE, (f"{document}#{number}", document, number, len(pieces)), strict=True))
            yield row._replace(text=piece, columns={**columns, **own}, types=types)


def make_splitter(split: Any) -> Callable[[str], list[str]]:
    """Return the function that a `split` of `ReadOptions` names."""
    if callable(split):
        return split  # type: ignore[no-any-return]
    kind, _, language = str(split).partition(":")
    if re.fullmatch(r"\d+-tokens", str(split)):
        raise InputError(f"{split!r} needs a model's tokenizer, and there is no model here: use 'sentences'")
    if kind != "sentences":
        raise InputError(f"cannot split by {split!r}: use 'sentences', 'sentences:de' or '128-tokens'")
    try:
        from sentencex import segment
    except ImportError as error:
        raise MissingExtraError("splitting needs sentencex", "split") from error
    return partial(segment, language or "en")


class TokenWindows:
    """Split texts into windows of tokens, between words.

    :param tokenizer: A model's tokenizer, of the library tokenizers.
    :param size: Tokens of a window, including special tokens.
    """

    def __init__(self, tokenizer: Any, size: int) -> None:
        self.tokenizer = tokenizer
        self.size = size - tokenizer.num_special_tokens_to_add(False)
        if self.size < 1:
            raise InputError(f"a passage of {size} tokens has no room for text: choose more tokens")

    def __call__(self, text: str) -> list[str]:
        """Return the passages of a text."""
        starts = [start for start, end in self.tokenizer.encode(text, add_special_tokens=False).offsets]
        cuts, at = [], 0
        while at < len(starts):
            cuts.append(starts[at])
            end = at + self.size
            if end < len(starts):
                inside = (i for i in range(end, at, -1) if text[starts[i] - 1 : starts[i]].isspace())
                end = next(inside, end)
            at = end
        return [text[a:b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]
