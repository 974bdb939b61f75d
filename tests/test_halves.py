"""Which similarity knows the halves of a sentence: against scipy, and on an encoder made to be mended."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.decomposition import PCA

from rankencoder.encoders import Encoder
from rankencoder.evaluation.halves import (
    HARDLY,
    LEAST_SHARE,
    Halves,
    describe_halves,
    halved,
    score_half_matching,
)

TOPICS = 40


@pytest.fixture(scope="module")
def sentences():
    """Sentences of eight words, all of one topic."""
    draw = np.random.default_rng(0)
    return [
        " ".join(f"w{topic}x{draw.integers(30)}" for _ in range(8))
        for topic in draw.integers(TOPICS, size=600)
    ]


def encoder(nuisance):
    """Vectors of topics, and one direction that has nothing to do with them."""

    def encode(texts):
        rows = np.zeros((len(texts), TOPICS + 1), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.split():
                row[int(word[1:].split("x")[0])] += 1
            row += np.random.default_rng(len(text) + sum(text.encode())).normal(size=TOPICS + 1)
            row[-1] *= nuisance
        return rows

    return Encoder(encode)


def test_the_cosines_correlation_is_scipys(sentences):
    encode = encoder(1)
    found = score_half_matching(encode, sentences, encode(sentences))
    a, b = (encode(list(texts)).numpy() for texts in zip(*halved(sentences), strict=True))
    cosines = [*(a * b).sum(axis=1), *(a * np.roll(b, len(b) // 2, axis=0)).sum(axis=1)]
    gold = np.repeat([1, 0], len(a))
    assert found.sentences == 600
    assert found.cosine == pytest.approx(100 * spearmanr(gold, cosines).statistic, abs=1e-3)


def test_a_direction_that_means_nothing_speaks_for_a_power(sentences):
    encode = encoder(30)
    found = score_half_matching(encode, sentences, encode(sentences))
    white = found.powers[-0.5]
    assert found.power in (-0.5, -0.375)
    assert white > found.cosine + 20
    assert f"Try centered power −{abs(found.power):g}" in describe_halves(found)


def test_a_power_must_be_clearly_better():
    assert Halves(600, 50.0, {0.0: 50.0 + HARDLY, -0.25: 49.0}, 0.5).power is None
    assert Halves(600, 50.0, {0.0: 50.0, -0.25: 50.1 + HARDLY}, 0.5).power == -0.25
    assert "Keep plain cosine" in describe_halves(Halves(600, 50.0, {0.0: 49.0}, 0.5))


def test_where_no_few_directions_hold_much_plain_cosine_is_safer():
    found = Halves(600, 50.0, {0.0: 50.0, -0.25: 50.1 + HARDLY}, LEAST_SHARE)
    assert found.power is None
    assert max(found.powers.values()) - found.cosine > HARDLY
    assert found.to_dict()["power"] is None
    assert "Keep plain cosine" in describe_halves(found)


def test_the_share_of_the_first_ten_directions_is_scikit_learns(sentences):
    vectors = encoder(3)(sentences)
    found = score_half_matching(encoder(3), sentences, vectors)
    expected = PCA(10).fit(vectors.numpy()).explained_variance_ratio_.sum()
    assert found.first_ten_share == pytest.approx(expected, abs=1e-4)


def test_short_sentences_cannot_be_halved():
    assert score_half_matching(encoder(1), ["two words"] * 500, torch.zeros(500, TOPICS + 1)) is None
    assert "too few sentences" in describe_halves(None)


def test_halves_that_cannot_be_encoded_say_nothing(sentences):
    encode = encoder(1)

    def picky(texts):
        if any(len(text.split()) < 8 for text in texts):
            return np.zeros((len(texts), TOPICS + 1))
        return encode(texts).numpy()

    assert score_half_matching(Encoder(picky), sentences, encode(sentences)) is None
