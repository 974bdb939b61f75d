"""Near-duplicates; the oracle is all pairs by numpy."""

import json

import numpy as np
import pytest

from conftest import letters
from rankencoder import RankIndex, find_duplicates
from rankencoder.errors import InputError
from rankencoder.search import near_duplicates as module

WORDS = [
    "anchor",
    "bridge",
    "candle",
    "desert",
    "engine",
    "forest",
    "garden",
    "harbour",
    "island",
    "jacket",
    "kettle",
    "ladder",
    "meadow",
    "needle",
    "orchard",
    "pepper",
    "quarry",
    "ribbon",
    "saddle",
    "temple",
    "umbrella",
    "valley",
    "window",
    "yellow",
    "zipper",
]


@pytest.fixture(scope="module")
def corpus():
    """400 sentences of five words, two of them with a near-duplicate, one repeated, and an empty line."""
    rng = np.random.default_rng(3)
    drawn = (" ".join(rng.choice(WORDS, 5, replace=False)) for _ in range(500))
    sentences = list(dict.fromkeys(drawn))[:400]
    extra = [f"{sentences[10]} {sentences[10].split()[0]}", f"{sentences[20]} {sentences[20].split()[1]}"]
    return [*sentences, *extra, sentences[30], ""]


def expected_pairs(corpus, threshold):
    texts = list(dict.fromkeys(filter(None, corpus)))
    vectors = letters(texts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows, columns = np.nonzero(np.triu(vectors @ vectors.T, 1) >= threshold)
    return {frozenset((texts[a], texts[b])) for a, b in zip(rows, columns, strict=True)}


def texts_of(found):
    return {frozenset((found.sentences[pair.a], found.sentences[pair.b])) for pair in found.pairs}


def test_all_pairs_by_similarity(corpus):
    found = find_duplicates(corpus, letters, threshold=0.9)
    assert found.pairs
    assert texts_of(found) == expected_pairs(corpus, 0.9)
    similarities = [pair.similarity for pair in found.pairs]
    assert similarities == sorted(similarities, reverse=True)
    assert found.skipped == 1
    assert [found.sentences[i] for i in found.repeated] == [corpus[30]]
    assert found.places[found.repeated[0]] == [
        "the given sentences, line 31",
        "the given sentences, line 403",
    ]


def test_threshold_as_a_share_of_random_pairs(corpus):
    found = find_duplicates(corpus, letters, threshold="99.9%")
    every = 401 * 402 // 2
    assert found.calibration.pairs == every
    assert len(found.pairs) == pytest.approx(every / 1000, rel=0.2)
    assert texts_of(found) == expected_pairs(corpus, found.threshold)
    assert all(pair.percentile >= 99.8 for pair in found.pairs)
    default = find_duplicates(corpus, letters)  # so few pairs cannot tell 99.9999%
    assert default.threshold == pytest.approx(default.calibration.similarity_at(default.calibration.finest))
    with pytest.raises(InputError, match="99.99999% is finer than"):
        find_duplicates(corpus, letters, threshold="99.99999%")


def test_groups_hang_together():
    texts = ["a b c d", "d c b a", "a b c d d", "x y z", "z y x", "lonely"]
    found = find_duplicates(texts, letters, threshold=0.9)
    assert [[found.sentences[i] for i in group] for group in found.groups()] == [texts[:3], texts[3:5]]


def test_blocks_are_compared_with_each_other(corpus, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 30)
    monkeypatch.setattr(module, "_WIDTH", 70)
    assert texts_of(find_duplicates(corpus, letters, threshold=0.9)) == expected_pairs(corpus, 0.9)


def test_an_index_can_be_looked_through(corpus, tmp_path):
    index = RankIndex.build(letters, corpus, tmp_path / "index")
    for given in (index, tmp_path / "index"):
        found = find_duplicates(given, threshold=0.9)
        assert texts_of(found) == expected_pairs(corpus, 0.9)


def test_rank_encoders_are_calibrated_on_their_reference(tiny_saved, sentences):
    from rankencoder import RankEncoder

    found = find_duplicates(sentences[:300], tiny_saved, threshold="99.9%")
    assert found.calibration.source == "the model's reference corpus"
    assert found.calibration.pairs == 1200 * 1199 // 2
    vectors = RankEncoder.load(tiny_saved).encode(sentences[:300])
    assert len(found.pairs) == (np.triu(vectors @ vectors.T, 1) >= found.threshold).sum()


@pytest.mark.parametrize("threshold", ["much", "1.5", "100%", "-3%", "nan", "%", 90])
def test_bad_thresholds(threshold, corpus):
    with pytest.raises(InputError, match="is neither a similarity .0.9. nor a share of random pairs"):
        find_duplicates(corpus, letters, threshold=threshold)


def test_too_little_to_compare():
    with pytest.raises(InputError, match="too few usable sentences to compare: 1"):
        find_duplicates(["one", "one", ""], letters)
    with pytest.raises(InputError, match="which model"):
        find_duplicates(["one", "two"])


def test_command(run_cli, tiny_saved, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("The cat sees the dog\nThe cat sees the dog .\nA river breaks\nA river breaks\n", "utf-8")
    code, out, err = run_cli("duplicates", path, "--model", tiny_saved, "--threshold", "0.8")
    assert (code, err) == (0, "")
    assert "The cat sees the dog ." in out
    assert "1 sentences are repeated word for word" in out
    assert "of the model's reference corpus" in out
    code, out, _ = run_cli("duplicates", path, "--model", tiny_saved, "--threshold", "0.8", "--groups")
    assert "different" in out.splitlines()[0]
    assert "(and 1 times more): A river breaks" in out
    code, out, _ = run_cli("duplicates", path, "--model", tiny_saved, "--threshold", "0.8", "--json")
    value = json.loads(out)
    assert value["pairs"][0]["a"] == {"text": "The cat sees the dog", "places": [f"{path}, line 1"]}
    assert value["threshold"] == 0.8
    code, out, err = run_cli("duplicates", path)
    assert (code, out) == (2, "")
    assert err.startswith("error: which model?")
    code, _, err = run_cli("duplicates", tmp_path / "none.txt", "--model", tiny_saved)
    assert (code, err.count("\n")) == (2, 1)
