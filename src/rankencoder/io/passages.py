"""Long texts as passages: sentences, or windows of tokens, with their document and position."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rankencoder.errors import InputError, MissingExtraError
from rankencoder.io.files import Sentence
from rankencoder.io.read_options import ReadOptions

PASSAGE = (
    "id",
    "document",
    "passage",
    "passages",
)  # columns of a passage: the last two are position and number


def split_passages(rows: Iterator[Sentence], options: ReadOptions) -> Iterator[Sentence]:
    """Yield the passages of texts, each with its document: the id of its row, or file and line."""
    split = make_splitter(options.split)
    for row in rows:
        columns = dict(row.columns or {})
        document = columns.get(options.id_name)
        if document is None:
            document = f"{row.source}:{row.line}"
        for name in PASSAGE[1:]:
            if name in columns:
                raise InputError(f"{row.place}: column {name!r} is one that `split` makes: rename it")
        pieces = [piece for piece in map(str.strip, split(row.text)) if piece] if row.text else [row.text]
        for number, piece in enumerate(pieces):
            own = dict(zip(PASSAGE, (f"{document}#{number}", document, number, len(pieces)), strict=True))
            yield row._replace(text=piece, columns={**columns, **own}, types=_types(row, options))


def _types(row: Sentence, options: ReadOptions) -> dict[str, Any] | None:
    """Return the types of a passage's columns, of which the document has that of the row's id."""
    if row.types is None:
        return None
    types = {name: kind for name, kind in row.types.items() if name not in PASSAGE}
    own = row.types.get(options.id_name)
    return {**types, "document": own} if own is not None else types


def make_splitter(split: Any) -> Callable[[str], list[str]]:
    """Return a function that splits a text, as `ReadOptions` names it."""
    if callable(split):
        return split  # type: ignore[no-any-return]
    kind, _, language = str(split).partition(":")
    if re.fullmatch(r"\d+-tokens", str(split)):
        raise InputError(
            f"{split!r} needs the tokenizer of a model, which is not known here: use 'sentences'"
        )
    if kind != "sentences":
        raise InputError(f"cannot split by {split!r}: use 'sentences', 'sentences:de' or '128-tokens'")
    try:
        from sentencex import segment
    except ImportError as error:
        raise MissingExtraError("splitting needs sentencex", "split") from error
    return partial(segment, language or "en")


class TokenWindows:
    """Splits texts into windows of tokens, at the ends of words.

    :param tokenizer: A model's, of the library tokenizers.
    :param size: Tokens of a window, with those that the model adds.
    """

    def __init__(self, tokenizer: Any, size: int) -> None:
        self.tokenizer = tokenizer
        self.size = size - tokenizer.num_special_tokens_to_add(False)
        if self.size < 1:
            raise InputError(f"a passage of {size} tokens has no room for text: give more")

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
