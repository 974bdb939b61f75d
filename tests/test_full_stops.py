"""The pipeline inside a templated tokenizer: full stops by the written rules, blanks, templates replaced."""

import string
from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st
from tiny_backbones import KINDS, ROBERTA, TEXTS, metaspace_tokenizer, roberta_tokenizer

from rankencoder.training.backbones.templates import Template, templated_ids, templated_tokenizer


def by_promptbert(text):
    """Section 2.5, as written."""
    return f"{text}." if text and text[-1] not in (".", "?", '"', "'") else text


def by_sncse(text):
    """Section 3.6, as written."""
    return text if not text.strip() or text.rstrip()[-1] in string.punctuation else f"{text} ."


ENDS = st.sampled_from(["", " ", "\n", "\t", "\x1c", "\x85", "\xa0", "\u2028", "\u3000", *string.punctuation])
SENTENCES = st.builds("".join, st.lists(st.text(max_size=5) | ENDS | st.sampled_from("aZ0é日“”"), max_size=6))


@cache
def templated(kind, full_stop):
    make_tokenizer, template, _ = KINDS[kind]
    return templated_tokenizer(make_tokenizer(), template, full_stop=full_stop)


@given(SENTENCES, st.sampled_from(sorted(KINDS)))
@example("", "roberta")
@example(" ", "roberta")
@example("Hi. ", "roberta")
@example("Hi\n", "roberta")
@example("a" + " " * 200, "roberta")
def test_full_stops_inside_the_tokenizer(text, kind):
    for full_stop, rule in (("promptbert", by_promptbert), ("sncse", by_sncse)):
        assert templated(kind, full_stop)(text) == templated(kind, "none")(rule(text))


def test_blanks_are_a_matter_of_the_template():
    for tokenizer in (roberta_tokenizer(), metaspace_tokenizer("always"), metaspace_tokenizer("first")):

        def pieces(ids, tokenizer=tokenizer):
            return "".join(tokenizer.convert_ids_to_tokens(ids)).replace("Ġ", "_").replace("▁", "_")

        for before, after in (("so '", "' is{mask}"), ("so ' ", " ' is{mask}"), ("", " is{mask}")):
            template = Template(before, after)
            (ids,) = templated_ids(tokenizer, ["cat the"], template, max_length=512)
            prefix, suffix = template.tokens(tokenizer)
            text = templated_tokenizer(tokenizer, template, full_stop="none")("cat the").sequence_ids()
            begin = text.index(0) - len(prefix)
            end = text.index(0) + text.count(0) + len(suffix)
            expected = f"{before}cat the{after}".replace(" ", "_").replace("{mask}", "<mask>")
            assert pieces(ids[begin:end]).removeprefix("_") == expected


def test_a_second_template_replaces_the_first():
    for make_tokenizer, template, full_stop in KINDS.values():
        base = make_tokenizer()
        once = templated_tokenizer(base, template, full_stop=full_stop)
        other = (
            Template("The sentence : ' ", " ' means{mask}.") if template.has_mask else Template('"', '" =')
        )
        twice = templated_tokenizer(once, other, full_stop="sncse")
        thrice = templated_tokenizer(twice, template, full_stop=full_stop)
        assert (
            twice(TEXTS)["input_ids"]
            == templated_tokenizer(base, other, full_stop="sncse")(TEXTS)["input_ids"]
        )
        assert thrice(TEXTS)["input_ids"] == once(TEXTS)["input_ids"]
        assert thrice.backend_tokenizer.to_str() == once.backend_tokenizer.to_str()
        assert other.tokens(once) == other.tokens(base)


def test_what_a_tokenizer_was_set_to_before_does_not_matter():
    fresh, used = roberta_tokenizer(), roberta_tokenizer()
    used("A cat", padding="max_length", truncation=True, max_length=3)
    assert ROBERTA.tokens(used) == ROBERTA.tokens(fresh)
    ids = [templated_ids(tokenizer, TEXTS, ROBERTA, max_length=512) for tokenizer in (used, fresh)]
    assert ids[0] == ids[1]
