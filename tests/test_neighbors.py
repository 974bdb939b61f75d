"""Batches of near neighbours."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from rankencoder.training.teaching.neighbors import NeighborBatchSampler, nearest_rows


def units(seed, n, dimension):
    vectors = np.random.default_rng(seed).normal(size=(n, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_neighbours_are_those_of_scikit_learn(monkeypatch):
    monkeypatch.setattr("rankencoder.training.teaching.neighbors._CHUNK", 64 * 300)
    vectors = units(0, 300, 8)
    found = nearest_rows([vectors], 5, device="cpu")
    oracle = NearestNeighbors(n_neighbors=6, metric="cosine").fit(vectors).kneighbors(vectors)[1]
    np.testing.assert_array_equal(found, oracle[:, 1:])


def test_several_teachers_decide_together():
    one, two = units(1, 100, 8), units(2, 100, 3)
    found = nearest_rows([one, two], 4, device="cpu")
    both = np.concatenate([one, two], axis=1)  # its inner products are the sums of the cosines
    oracle = NearestNeighbors(n_neighbors=5, metric="cosine").fit(both).kneighbors(both)[1]
    np.testing.assert_array_equal(found, oracle[:, 1:])


def test_never_more_neighbours_than_there_are():
    assert nearest_rows([units(0, 3, 4)], 12, device="cpu").shape == (3, 2)


def sampler(n, batch_size, neighbors, *, seed=0, drop_last=False, dimension=4):
    nearest = nearest_rows([units(7, n, dimension)], 4 * neighbors, device="cpu")
    return NeighborBatchSampler(
        Dataset.from_dict({"row": range(n)}),
        nearest=nearest,
        neighbors=neighbors,
        batch_size=batch_size,
        drop_last=drop_last,
        generator=torch.Generator(),
        seed=seed,
    )


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(2, 120),
    batch_size=st.integers(2, 20),
    neighbors=st.integers(1, 25),
    epoch=st.integers(0, 3),
    drop_last=st.booleans(),
)
def test_every_sentence_comes_once_an_epoch(n, batch_size, neighbors, epoch, drop_last):
    drawn = sampler(n, batch_size, neighbors, drop_last=drop_last)
    drawn.set_epoch(epoch)
    batches = list(drawn)
    assert len(batches) == len(drawn)
    rows = [row for batch in batches for row in batch]
    assert len(set(rows)) == len(rows)
    assert {len(batch) for batch in batches[:-1]} <= {batch_size}
    if drop_last:
        assert all(len(batch) == batch_size for batch in batches)
        assert n - len(rows) < batch_size
    else:
        assert sorted(rows) == list(range(n))
    assert all(type(row) is int for row in rows)


def test_seed_and_epoch_decide_the_order():
    one, again, other = sampler(60, 8, 2), sampler(60, 8, 2), sampler(60, 8, 2, seed=1)
    assert list(one) == list(again) == list(one)
    assert list(one) != list(other)
    first = list(one)
    one.set_epoch(1)
    assert list(one) != first


def test_neighbours_are_in_one_batch():
    drawn = sampler(1000, 10, 4, dimension=16)
    near = drawn.nearest[:, :4]
    shares = [np.isin(near[batch], batch).any(axis=1).mean() for batch in drawn]
    order = np.random.default_rng(0).permutation(1000).reshape(100, 10)
    by_chance = [np.isin(near[batch], batch).any(axis=1).mean() for batch in order]
    assert np.mean(shares) > 0.4 > 5 * np.mean(by_chance)


@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
def test_more_pairs_pass_the_filter(train):
    settings = {"combine": "sum", "lower": 0.7, "upper": 0.99, "batch_size": 16}
    first = train("first", **settings)
    base = {"base_encoder": str(first.folder / "base"), **settings}
    second = train("second", neighbors=3, **base)

    def pairs(run):
        return np.mean([entry["pairs"] for entry in run.record["history"] if "pairs" in entry])

    assert pairs(second) > 1.3 * pairs(first)
    told = second.record["pairs_per_batch"]
    assert told["random"] == pytest.approx(pairs(first), rel=0.2)
    assert told["neighbors"] > 1.3 * told["random"]
    assert "pairs_per_batch" not in first.record
    assert [stage["steps"] for stage in second.record["stages"]] == [6]
