"""Put sentences into a prompt, in training and in the saved tokenizer.

PromptBERT and SNCSE pool the mask token of `This sentence of "X" means[MASK].`, causal language models the
last token of `This sentence : "X" means in one word:"`. Prefix, sentence and suffix are tokenized separately
and joined by the tokenizer's post-processor; in one text, a byte-level tokenizer might merge the sentence's
end with the quotation mark.

The saved encoder (`prompted_encoder`) is a plain SentenceTransformer with the template in its tokenizer.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from tempfile import TemporaryDirectory
from typing import Any, Literal

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Module, Pooling, WordWeights
from tokenizers import Tokenizer, models
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from rankencoder.encoders import PROBE
from rankencoder.errors import InputError
from rankencoder.training.backbones.backbone import Backbone

State = dict[str, Any]  # tokenizer.json without the vocabulary

FullStop = Literal["none", "promptbert", "sncse"]
_BLANKS = "\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # those of str.isspace
_FULL_STOPS = {  # the end of which texts each rule matches, and what it adds
    "promptbert": (r"""(?<=[^.?"'])\z""", "."),
    "sncse": (
        rf"(?<=[^{_BLANKS}!-/:-@\[-`{{-~][{_BLANKS}]*)\z",
        " .",
    ),  # after no punctuation
}
_LEADING_BLANK = {"type": "Prepend", "prepend": " "}


@dataclass(frozen=True)
class Template:
    """Text before and after a sentence. In `after`, "{mask}" stands for the tokenizer's mask token.

    A space at the end of `before` is tokenized with the sentence, for tokenizers that mark the beginning of
    words. Without "{mask}", the last token is pooled and no special token follows it.
    """

    before: str
    after: str
    bos: bool = False  # begin with the bos token if the tokenizer adds none

    @property
    def has_mask(self) -> bool:
        """Whether the mask token is pooled."""
        return "{mask}" in self.after

    def tokens(self, tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
        """Return the token ids of prefix and suffix."""
        after = self.after
        if self.has_mask:
            check_mask_token(tokenizer)
            after = after.replace("{mask}", str(tokenizer.mask_token))
        state = _plain_state(tokenizer)
        backend = _backend(tokenizer, state)
        before = backend.encode(self.before.rstrip(), add_special_tokens=False).ids
        if _own_blank(state, keep=after[:1].isspace()):
            after = after.lstrip()
        return before, _set_parts(backend, state).encode(after, add_special_tokens=False).ids


def check_mask_token(tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that a tokenizer has a mask token."""
    if not tokenizer.mask_token:
        raise InputError(
            f"the tokenizer of {tokenizer.name_or_path!r} has no mask token, which the method needs: choose "
            "a masked language model (BERT, RoBERTa, ...) or a method for causal ones"
        )


def templated_ids(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
    template: Template,
    *,
    max_length: int,
    full_stop: FullStop = "none",
) -> list[list[int]]:
    """Return the token ids of sentences in a template, the sentences truncated to ``max_length`` tokens."""
    templated = training_tokenizer(tokenizer, template, full_stop)
    length = max_length + templated.num_special_tokens_to_add()
    return list(templated(list(sentences), truncation=True, max_length=length)["input_ids"])


def templated_tokenizer(
    tokenizer: PreTrainedTokenizerBase, template: Template, full_stop: FullStop = "none"
) -> PreTrainedTokenizerFast:
    """Return a tokenizer that puts every sentence into the template; truncation keeps the template.

    With full stop "promptbert", a stop is added unless the sentence ends in one of ``. ? " '``; with "sncse",
    space and stop are added unless it ends in ASCII punctuation, ignoring spaces. Empty sentences get none.

    A previous template is replaced. Special tokens within a sentence are read as text, so that a row has one
    mask (except that Unigram models, as XLM-RoBERTa's, may have their mask token as a word). Padding is on
    the right: on the left it would shift learned positions.
    """
    # the generic class, as for others transformers 5 loads the stock pipeline
    state = _plain_state(tokenizer)
    begin, end = _special_ids(_backend(tokenizer, state))
    if template.bos and not begin and tokenizer.bos_token_id is not None:
        begin = [int(tokenizer.bos_token_id)]
    prefix, suffix = template.tokens(tokenizer)
    blank = template.before[-1:].isspace()
    own_blank = not template.before or _own_blank(state, keep=blank)
    added = [] if full_stop == "none" else [_replacement(full_stop)]
    added += [_LEADING_BLANK] if blank and not own_blank else []
    state["normalizer"] = {"type": "Sequence", "normalizers": [*added, *_parts(state["normalizer"])]}
    backend = _backend(tokenizer, state)
    pieces = {"BEGIN": begin, "PREFIX": prefix, "SUFFIX": suffix, "END": end if template.has_mask else []}
    _set_post_processor(backend, pieces)
    named = tokenizer.special_tokens_map
    for stand_in in ("eos_token", "unk_token", "bos_token"):  # many causal models lack a padding token
        if "pad_token" not in named and stand_in in named:
            named["pad_token"] = named[stand_in]
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        name_or_path=tokenizer.name_or_path,
        model_max_length=tokenizer.model_max_length,
        truncation_side=tokenizer.truncation_side,
        padding_side="right",
        split_special_tokens=True,
        model_input_names=["input_ids", "attention_mask"],
        **named,
    )


training_tokenizer = lru_cache(maxsize=8)(templated_tokenizer)  # separate from the encoder's


def _plain_state(tokenizer: PreTrainedTokenizerBase) -> State:
    """Return a tokenizer's parts without truncation, padding and a previous template."""
    state: State = json.loads(_copy_parts(tokenizer.backend_tokenizer, Tokenizer(models.BPE())).to_str())
    post = state["post_processor"] or {}
    if "PREFIX" in (post.get("special_tokens") or {}):
        ours = [_LEADING_BLANK, *map(_replacement, _FULL_STOPS)]
        own = [part for part in _parts(state["normalizer"]) if part not in ours]
        state["normalizer"] = {"type": "Sequence", "normalizers": own}
        template = [{"SpecialToken": {"id": name, "type_id": 0}} for name in ("PREFIX", "SUFFIX")]
        post["single"] = [part for part in post["single"] if part not in template]
    return state


def _backend(tokenizer: PreTrainedTokenizerBase, state: State) -> Tokenizer:
    """Return a tokenizer with these parts, sharing the vocabulary, which takes seconds to copy."""
    core = tokenizer.backend_tokenizer
    backend = Tokenizer(core.model)
    added = core.get_added_tokens_decoder()
    backend.add_tokens([added[index] for index in sorted(added)])
    return _set_parts(backend, state)


def _set_parts(backend: Tokenizer, state: State) -> Tokenizer:
    return _copy_parts(Tokenizer.from_str(json.dumps(state)), backend)


def _copy_parts(source: Tokenizer, target: Tokenizer) -> Tokenizer:
    """Copy all parts but the vocabulary from one tokenizer to another."""
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        setattr(target, name, getattr(source, name))
    return target


def _special_ids(backend: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the special tokens before and after a text."""
    encoded = backend.encode("a")
    text = [position for position, special in enumerate(encoded.special_tokens_mask) if not special]
    return encoded.ids[: text[0]], encoded.ids[text[-1] + 1 :]


def _own_blank(state: State, *, keep: bool) -> bool:
    """Return whether a tokenizer prepends a space to every text; turn that off unless ``keep``."""
    found = False
    for part in _parts(state["normalizer"]):
        if part["type"] == "Prepend" and part["prepend"]:
            found, part["prepend"] = True, part["prepend"] if keep else ""
    first: dict[str, Any] = next(iter(_parts(state["pre_tokenizer"])), {"type": ""})  # later ones see words
    if first["type"] == "Metaspace" and first["prepend_scheme"] != "never":
        found, first["prepend_scheme"] = True, first["prepend_scheme"] if keep else "never"
    if first["type"] == "ByteLevel" and first["add_prefix_space"]:
        found, first["add_prefix_space"] = True, keep
    return found


def _replacement(full_stop: str) -> dict[str, Any]:
    pattern, content = _FULL_STOPS[full_stop]
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _parts(component: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the parts of a normalizer or pre-tokenizer, flattened."""
    if component is None or component["type"] != "Sequence":
        return [component] if component else []
    inner = component.get("normalizers") or component.get("pretokenizers") or []
    return [part for each in inner for part in _parts(each)]


def _set_post_processor(backend: Tokenizer, pieces: dict[str, list[int]]) -> None:
    """Put pieces of any number of tokens around the text, for which truncation leaves room."""
    begin, prefix, suffix, end = ([name] if ids else [] for name, ids in pieces.items())
    backend.post_processor = TemplateProcessing(
        single=[*begin, *prefix, "$A", *suffix, *end],
        special_tokens=[
            {"id": name, "ids": ids, "tokens": [backend.id_to_token(index) for index in ids]}
            for name, ids in pieces.items()
        ],
    )


def prompted_encoder(
    backbone: Backbone, template: Template, *, full_stop: FullStop = "none", pooling: str = "lasttoken"
) -> SentenceTransformer:
    """Return an encoder that puts every sentence into a template, also after saving and loading.

    It pools the template's mask token, or by ``pooling`` if there is none. The backbone's `max_seq_length`
    includes the template.
    """
    module = backbone.module
    tokenizer = templated_tokenizer(backbone.tokenizer, template, full_stop)
    length, added = module.max_seq_length, tokenizer.num_special_tokens_to_add()
    if length is not None and length <= added:
        raise InputError(
            f"max_seq_length {length} leaves no room for a sentence: the template takes {added} tokens"
        )
    _check_reload(tokenizer, backbone.config)
    module.processor = tokenizer
    # with a chat template, sentences would be read as messages
    module.modality_config = {"text": module.modality_config["text"]}
    module.input_formatter.supported_modalities = ["text"]
    if not template.has_mask:
        return SentenceTransformer(modules=[module, Pooling(backbone.dimension, pooling)])
    module.unpad_inputs = False  # WordWeights needs padded rows
    return SentenceTransformer(modules=[module, *mask_pooling(tokenizer, backbone.dimension)])


def mask_pooling(tokenizer: PreTrainedTokenizerBase, dimension: int) -> list[Module]:
    """Return modules that pool the mask token."""
    mask, ids = str(tokenizer.mask_token), tokenizer.get_vocab()
    words = [f"<id {index}>" for index in range(max(ids.values()) + 1)]
    for word, index in ids.items():
        words[index] = word
    # WordWeights falls back to a word's lower case
    weights = {word: 0.0 for word in words if word.lower() == mask} | {mask: 1.0}
    pick = WordWeights(words, weights, unknown_word_weight=0)
    return [pick.requires_grad_(False), Pooling(dimension, "mean")]


def _check_reload(tokenizer: PreTrainedTokenizerFast, config: Any) -> None:
    """Check that the tokenizer is unchanged when loaded, as some models load their own class."""
    texts = [*PROBE, "", "Hi", " Hi! ", f"{tokenizer.mask_token or tokenizer.eos_token} naïve"]
    with TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        loaded = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if loaded(texts, verbose=False)["input_ids"] != tokenizer(texts, verbose=False)["input_ids"]:
        raise InputError(
            f"transformers loads the tokenizer of a {config.model_type!r} model as {type(loaded).__name__}, "
            "which drops the template's full stop or leading space: choose another method or backbone"
        )
