"""The parts of a tokenizer.json that a template changes: normaliser, pre-tokenizer and post-processor.

Everything here works on the file's content as `read_state` returns it, a dictionary that may be changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

    State = dict[str, Any]

_BLANKS = "\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # those of str.isspace
FULL_STOPS = {  # where each rule applies, the end of a text with certain characters before it; what it adds
    "promptbert": (r"""(?<=[^.?"'])\z""", "."),
    "sncse": (rf"(?<=[^{_BLANKS}!-/:-@\[-`{{-~][{_BLANKS}]*)\z", " ."),
}
_LEADING_BLANK = {"type": "Prepend", "prepend": " "}
_PIECES = ("BEGIN", "PREFIX", "SUFFIX", "END")


def read_state(tokenizer: PreTrainedTokenizerBase) -> State:
    """Return what a tokenizer's file would hold, without truncation and padding.

    A template's normalisers are left out, and its post-processor is not: `special_ids` needs it.
    """
    state: State = json.loads(tokenizer.backend_tokenizer.to_str())
    state.update(truncation=None, padding=None)
    if _pieces(state):
        ours = [_LEADING_BLANK, *map(_full_stop, FULL_STOPS)]
        own = [part for part in _outer_parts(state["normalizer"]) if part not in ours]
        state["normalizer"] = (
            {"type": "Sequence", "normalizers": own} if len(own) > 1 else next(iter(own), None)
        )
    return state


def make_backend(state: State) -> Tokenizer:
    """Return the tokenizer of a file's content."""
    from tokenizers import Tokenizer

    return Tokenizer.from_str(json.dumps(state))


def special_ids(state: State) -> tuple[list[int], list[int]]:
    """Return the special tokens that stand before and after a text; a template's own are none."""
    if pieces := _pieces(state):
        return pieces.get("BEGIN", []), pieces.get("END", [])
    encoded = make_backend(state).encode("a")
    text = [position for position, special in enumerate(encoded.special_tokens_mask) if not special]
    return encoded.ids[: text[0]], encoded.ids[text[-1] + 1 :]


def own_blank(state: State, *, keep: bool) -> bool:
    """Say whether a tokenizer puts a blank before every text by itself; unless it may keep that, stop it."""
    found = False
    for part in _parts(state["normalizer"]):
        if part["type"] == "Prepend" and part["prepend"]:
            found, part["prepend"] = True, part["prepend"] if keep else ""
    first = next(_parts(state["pre_tokenizer"]), None)  # a later one would see words, not texts
    if first and first["type"] == "Metaspace" and first["prepend_scheme"] != "never":
        found, first["prepend_scheme"] = True, first["prepend_scheme"] if keep else "never"
    if first and first["type"] == "ByteLevel" and first["add_prefix_space"]:
        found, first["add_prefix_space"] = True, keep
    return found


def set_normalizer(state: State, *, full_stop: str, blank: bool) -> None:
    """Let the full-stop rule (or "none") and a leading blank come before the tokenizer's own normaliser."""
    added = [] if full_stop == "none" else [_full_stop(full_stop)]
    if blank:
        added.append(_LEADING_BLANK)
    own = [state["normalizer"]] if state["normalizer"] else []
    state["normalizer"] = {"type": "Sequence", "normalizers": [*added, *own]}


def set_post_processor(
    state: State, *, begin: list[int], prefix: list[int], suffix: list[int], end: list[int]
) -> None:
    """Put pieces of any number of tokens around the text; truncation then leaves room for all of them."""
    pieces = dict(zip(_PIECES, (begin, prefix, suffix, end), strict=True))
    before = [{"SpecialToken": {"id": name, "type_id": 0}} for name in _PIECES[:2] if pieces[name]]
    after = [{"SpecialToken": {"id": name, "type_id": 0}} for name in _PIECES[2:] if pieces[name]]
    text, pair = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    backend = make_backend(state)
    state["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [*before, text, *after],
        "pair": [*before, text, pair, *after],
        "special_tokens": {
            name: {"id": name, "ids": ids, "tokens": [backend.id_to_token(index) for index in ids]}
            for name, ids in pieces.items()
        },
    }


def _pieces(state: State) -> dict[str, list[int]]:
    """Return the pieces of a post-processor that `set_post_processor` made, and of any other none."""
    special = (state["post_processor"] or {}).get("special_tokens") or {}
    return {name: special[name]["ids"] for name in _PIECES} if set(_PIECES) <= set(special) else {}


def _full_stop(name: str) -> dict[str, Any]:
    pattern, content = FULL_STOPS[name]
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _outer_parts(component: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the parts of a normaliser or pre-tokenizer in their order, which may have parts in turn."""
    if component is None or component["type"] != "Sequence":
        return [component] if component else []
    return list(component.get("normalizers") or component.get("pretokenizers") or [])


def _parts(component: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Yield the innermost parts of a normaliser or pre-tokenizer in their order."""
    for part in _outer_parts(component):
        yield from _parts(part) if part["type"] == "Sequence" else [part]
