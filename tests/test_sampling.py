import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from rankencoder.io import sampling
from rankencoder.io.corpus import Sentence
from rankencoder.io.sampling import sample_sentences


def draw(texts, size, seed=42):
    return sample_sentences((Sentence(text, "memory", i) for i, text in enumerate(texts)), size, seed)


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.integers(1, 10), st.randoms())
def test_order_and_repetition_do_not_matter(texts, size, rng):
    sample = draw(texts, size)
    shuffled = [*texts, *texts]
    rng.shuffle(shuffled)
    assert draw(shuffled, size).sentences == sample.sentences
    assert len(sample.sentences) == min(size, len(set(texts))) == len(set(sample.sentences))
    assert sample.counts["duplicates"] == len(texts) - len(set(texts))


def test_every_sentence_is_as_likely_as_any_other():
    texts = [f"sentence {i}" for i in range(40)]
    drawn = Counter(text for seed in range(1500) for text in draw(texts, 10, seed).sentences)
    assert len(drawn) == 40
    assert chisquare(list(drawn.values())).pvalue > 1e-4


def test_what_is_dropped_is_counted():
    sample = draw(["a", "", "b", None, "a", "", "c"], 10)
    assert sorted(sample.sentences) == ["a", "b", "c"]
    assert sample.counts == {"seen": 7, "empty": 2, "overlong": 1, "duplicates": 1, "estimated": False}


def test_duplicates_of_a_huge_corpus_are_estimated(monkeypatch):
    monkeypatch.setattr(sampling, "_EXACT_DISTINCT", 100)
    texts = [f"sentence {i}" for i in range(20_000)] * 2
    random.Random(0).shuffle(texts)
    sample = draw(texts, 2000)
    assert sample.counts["estimated"]
    assert abs(sample.counts["duplicates"] - 20_000) < 3 * 20_000 / 2000**0.5


def test_duplicates_of_a_sample_that_holds_everything_are_counted(monkeypatch):
    monkeypatch.setattr("rankencoder.io.sampling._EXACT_DISTINCT", 1000)
    found = sample_sentences((Sentence(f"sentence {i % 1500}", "a", i) for i in range(1600)), 2000, 0)
    assert (found.counts["duplicates"], found.counts["estimated"]) == (100, False)
