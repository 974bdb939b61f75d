"""Sentences inside a prompt, in training and in the exported tokenizer alike.

PromptBERT and SNCSE read the state of the mask token in `This sentence of "X" means[MASK].`; causal language
models are read at the last token of `This sentence : "X" means in one word:"`. Prefix, sentence and suffix
are tokenised one by one, and the tokenizer's post-processor joins them: a byte-level tokenizer that saw the
whole text might merge the sentence's end with the quotation mark.

The export is a plain SentenceTransformer: `install_template`, then `mask_pooling` or a pooling of the last
token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from rankencoder.encoders import PROBE
from rankencoder.errors import InputError
from rankencoder.training.backbones import tokenizer_json

if TYPE_CHECKING:
    from sentence_transformers.sentence_transformer.modules import Module, Transformer
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

FullStop = Literal["none", "promptbert", "sncse"]  # see `add_full_stop`
_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass(frozen=True)
class Template:
    """Text before and after a sentence. In `after`, "{mask}" stands for the tokenizer's mask token.

    A blank at the end of `before` belongs to the sentence: with it, tokenizers that tell the beginning of a
    word from its inside see the beginning of one. A template without "{mask}" is read at its last token, so
    no special token follows it.
    """

    before: str
    after: str

    @property
    def has_mask(self) -> bool:
        """Whether a sentence's vector is the state of the mask token."""
        return "{mask}" in self.after

    def tokens(self, tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
        """Return the ids of prefix and suffix, without special tokens."""
        after = self.after
        if self.has_mask:
            check_mask_token(tokenizer)
            after = after.replace("{mask}", str(tokenizer.mask_token))
        state = tokenizer_json.read_state(tokenizer)
        before = tokenizer_json.make_backend(state).encode(self.before.rstrip(), add_special_tokens=False).ids
        if tokenizer_json.own_blank(state, keep=after[:1].isspace()):
            after = after.lstrip()
        return before, tokenizer_json.make_backend(state).encode(after, add_special_tokens=False).ids

    def start(self, tokenizer: PreTrainedTokenizerBase) -> int:
        """Return how many tokens stand before the sentence, special tokens included."""
        begin, _ = tokenizer_json.special_ids(tokenizer_json.read_state(tokenizer))
        return len(begin) + len(self.tokens(tokenizer)[0])


def check_mask_token(tokenizer: PreTrainedTokenizerBase) -> None:
    """Make sure that a tokenizer has a mask token."""
    if not tokenizer.mask_token:
        raise InputError(
            f"the tokenizer of {tokenizer.name_or_path!r} has no mask token, and the method needs [MASK]: "
            "choose a masked language model (BERT, RoBERTa, ...), or a method for causal ones"
        )


def add_full_stop(text: str, full_stop: FullStop) -> str:
    """Return a sentence as it enters its template.

    "promptbert" puts "." after a sentence whose last character is none of ``. ? " '``, "sncse" puts " ."
    after one whose last character, blanks aside, is no ASCII punctuation. Empty sentences stay empty.

    >>> add_full_stop("Hi!", "promptbert"), add_full_stop("Hi!", "sncse"), add_full_stop("Hi", "sncse")
    ('Hi!.', 'Hi!', 'Hi .')
    """
    return text if full_stop == "none" else str(_full_stop_rule(full_stop).normalize_str(text))


@cache
def _full_stop_rule(full_stop: FullStop) -> Any:
    from tokenizers import Regex
    from tokenizers.normalizers import Replace

    pattern, added = tokenizer_json.FULL_STOPS[full_stop]
    return Replace(Regex(pattern), added)


def templated_ids(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
    template: Template,
    *,
    max_length: int | None = None,
) -> list[list[int]]:
    """Return the ids of sentences, cut to ``max_length`` tokens, in a template that comes on top."""
    templated = _cached_tokenizer(tokenizer, template)
    length = None if max_length is None else max_length + template_length(tokenizer, template)
    encoded = templated(list(sentences), truncation=length is not None, max_length=length, verbose=False)
    return list(encoded["input_ids"])


def template_length(tokenizer: PreTrainedTokenizerBase, template: Template) -> int:
    """Return the number of tokens that a template adds to a sentence, special tokens included."""
    return int(_cached_tokenizer(tokenizer, template).num_special_tokens_to_add())


@lru_cache(maxsize=8)
def _cached_tokenizer(tokenizer: PreTrainedTokenizerBase, template: Template) -> PreTrainedTokenizerFast:
    return templated_tokenizer(tokenizer, template, full_stop="none")


def templated_tokenizer(
    tokenizer: PreTrainedTokenizerBase, template: Template, *, full_stop: FullStop
) -> PreTrainedTokenizerFast:
    """Return a tokenizer that puts every sentence into the template; truncation cuts the sentence alone.

    A template that the tokenizer already has is replaced. Special tokens written in a sentence are read as
    text, so that a row has one mask (except that a Unigram model, as XLM-RoBERTa's, may know its mask token
    as a word). Padding is on the right: sentence-transformers gives no positions, so that learned ones would
    be shifted by padding on the left.
    """
    # the generic class: of any other, transformers 5 loads the stock pipeline
    from transformers import PreTrainedTokenizerFast

    prefix, suffix = template.tokens(tokenizer)
    state = tokenizer_json.read_state(tokenizer)
    begin, end = tokenizer_json.special_ids(state)
    blank = template.before[-1:].isspace()
    own_blank = not template.before or tokenizer_json.own_blank(state, keep=blank)
    tokenizer_json.set_normalizer(state, full_stop=full_stop, blank=blank and not own_blank)
    tokenizer_json.set_post_processor(
        state, begin=begin, prefix=prefix, suffix=suffix, end=end if template.has_mask else []
    )
    named = {name: str(token) for name in _NAMED_TOKENS if (token := getattr(tokenizer, name, None))}
    for stand_in in ("eos_token", "unk_token", "bos_token"):  # many causal models have no padding token
        if "pad_token" not in named and stand_in in named:
            named["pad_token"] = named[stand_in]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_json.make_backend(state),
        name_or_path=tokenizer.name_or_path,
        model_max_length=tokenizer.model_max_length,
        truncation_side=tokenizer.truncation_side,
        padding_side="right",
        split_special_tokens=True,
        model_input_names=["input_ids", "attention_mask"],
        **named,
    )


def mask_pooling(tokenizer: PreTrainedTokenizerBase, dimension: int) -> list[Module]:
    """Return the modules that make the state of the mask token the sentence's vector."""
    from sentence_transformers.sentence_transformer.modules import Pooling, WordWeights

    mask, ids = str(tokenizer.mask_token), tokenizer.get_vocab()
    words = [f"<id {index}>" for index in range(max(ids.values()) + 1)]
    for word, index in ids.items():
        words[index] = word
    # WordWeights falls back on a word's lower case
    weights = {word: 0.0 for word in words if word.lower() == mask} | {mask: 1.0}
    pick = WordWeights(words, weights, unknown_word_weight=0)
    pick.requires_grad_(False)
    return [pick, Pooling(dimension, "mean")]


def install_template(transformer: Transformer, template: Template, *, full_stop: FullStop = "none") -> None:
    """Make a Transformer module put every sentence into the template, also after it is saved and loaded.

    Its `max_seq_length` stays and counts all tokens, the template's included.
    """
    assert transformer.tokenizer is not None  # a backbone has one
    tokenizer = templated_tokenizer(transformer.tokenizer, template, full_stop=full_stop)
    length, added = transformer.max_seq_length, tokenizer.num_special_tokens_to_add()
    if length is not None and length <= added:
        raise InputError(
            f"max_seq_length {length} leaves no room for a sentence: the template takes {added} tokens"
        )
    _check_reload(tokenizer, transformer.config)
    transformer.processor = tokenizer
    # a chat template would have the sentences as messages
    transformer.modality_config = {"text": transformer.modality_config["text"]}
    transformer.input_formatter.supported_modalities = ["text"]
    if template.has_mask:
        transformer.unpad_inputs = False  # WordWeights needs rows, not one long sequence


def _check_reload(tokenizer: PreTrainedTokenizerFast, config: Any) -> None:
    """Make sure that what is saved is what is loaded: some models have a class of their own."""
    from transformers import AutoTokenizer

    texts = [*PROBE, "", "Hi", " Hi! ", f"{tokenizer.mask_token or tokenizer.eos_token} naïve"]
    with TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        loaded = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if loaded(texts, verbose=False)["input_ids"] != tokenizer(texts, verbose=False)["input_ids"]:
        raise InputError(
            f"transformers loads the tokenizer of a {config.model_type!r} model as {type(loaded).__name__}, "
            "which drops a template's full stop or leading blank: use a template without, or another backbone"
        )
