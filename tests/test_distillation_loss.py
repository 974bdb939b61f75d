"""Targets, loss and measures of distillation, against values that others compute."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr, zscore
from sentence_transformers import SentenceTransformer
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors

from rankencoder.distillation.agreement import find_dissent, held_out_rows, measure_agreement
from rankencoder.distillation.teacher_space import fit_map, map_into_space, space_recall
from rankencoder.errors import InputError
from rankencoder.training.teaching.distillation_loss import DistillationLoss
from rankencoder.training.teaching.targets import Mix, TeacherSimilarity, standardized_mix


def unit_rows(seed, n, dimension):
    rows = np.random.default_rng(seed).normal(size=(n, dimension)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@given(st.integers(2, 5), st.integers(0, 1000), st.floats(-0.5, 0.9), st.floats(0.01, 0.5))
def test_the_target_is_the_mean_of_z_scores_on_the_students_scale(teachers, seed, mean, deviation):
    draw = np.random.default_rng(seed)
    rows = [draw.normal(draw.uniform(-1, 1), draw.uniform(0.01, 1), size=500) for _ in range(teachers)]
    weights = draw.uniform(0.1, 3, size=teachers)
    mix = standardized_mix(rows, weights, mean, deviation)
    found = mix.offset + np.asarray(mix.factors) @ np.stack(rows)
    t = np.average([zscore(row) for row in rows], axis=0, weights=weights)
    assert np.allclose(found, mean + deviation * zscore(t), atol=1e-8)


def test_equal_similarities_teach_nothing():
    with pytest.raises(InputError, match="teacher 2 gives all pairs the same similarity"):
        standardized_mix([np.arange(3.0), np.ones(3)], [1, 1], 0.0, 1.0)
    with pytest.raises(InputError, match="cancel each other out"):
        standardized_mix([np.arange(3.0), -np.arange(3.0)], [1, 1], 0.0, 1.0)


def test_teachers_of_any_dimension_are_mixed():
    a, b = unit_rows(1, 40, 6), unit_rows(2, 40, 11)
    similarity = TeacherSimilarity(
        [torch.from_numpy(a), torch.from_numpy(b)], "cosine", Mix([0.7, 1.4], -0.2)
    )
    found = similarity([torch.from_numpy(a[:9]), torch.from_numpy(b[:9])]).numpy()
    expected = 0.7 * cosine_similarity(a[:9]) + 1.4 * cosine_similarity(b[:9]) - 0.2
    assert np.allclose(found, expected, atol=1e-6)


def test_ranks_are_spearmans_correlation_over_the_reference():
    reference, batch = unit_rows(3, 200, 6), unit_rows(4, 5, 6)
    found = TeacherSimilarity([torch.from_numpy(reference)], "ranks")([torch.from_numpy(batch)]).numpy()
    expected = spearmanr((batch @ reference.T).T).statistic
    assert np.allclose(found, expected, atol=2e-3)  # training's ranks are binned


def test_the_loss_is_a_hundred_times_the_squared_error_of_all_pairs(tiny_folder, sentences):
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    teacher = unit_rows(5, 12, 7)
    loss = DistillationLoss(
        model, TeacherSimilarity([torch.from_numpy(teacher)], "cosine"), vector_weight=3.0
    )
    texts = sentences[:12]
    origin = torch.from_numpy(unit_rows(6, 12, 32))
    batch = {**model.preprocess(texts), "teacher0": torch.from_numpy(teacher), "origin": origin}
    found = loss([batch]).item()
    own = model.encode(texts)
    off = ~np.eye(12, dtype=bool)
    squares = (cosine_similarity(own) - cosine_similarity(teacher))[off] ** 2
    vectors = 1 - np.diag(cosine_similarity(own, origin.numpy()))
    assert found == pytest.approx(100 * squares.mean() + 3 * vectors.mean(), rel=1e-4)


def test_dropout_is_off_unless_wanted(tiny_folder, sentences):
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    teacher = torch.from_numpy(unit_rows(5, 12, 7))

    def twice(dropout):
        loss = DistillationLoss(model, TeacherSimilarity([teacher], "cosine"), dropout=dropout)
        model.train()  # as the trainer does
        return {loss([{**model.preprocess(sentences[:12]), "teacher0": teacher}]).item() for _ in range(2)}

    assert len(twice(dropout=False)) == 1
    assert len(twice(dropout=True)) == 2


def test_agreement_is_spearman_and_recall_of_neighbors():
    student, teacher = unit_rows(7, 60, 5), unit_rows(8, 60, 9)
    teacher[:, :5] += 2 * student
    targets = cosine_similarity(teacher)
    found = measure_agreement(student, targets)
    upper = np.triu_indices(60, 1)
    assert found.spearman == pytest.approx(spearmanr((student @ student.T)[upper], targets[upper]).statistic)
    near = [
        NearestNeighbors(n_neighbors=11, metric="cosine").fit(rows).kneighbors(rows, return_distance=False)
        for rows in (student, teacher)
    ]
    shared = [len(set(a[1:]) & set(b[1:])) / 10 for a, b in zip(*near, strict=True)]
    assert found.recall == pytest.approx(np.mean(shared))


def test_held_out_rows_depend_on_the_seed_alone():
    first, again, other = (held_out_rows(3000, seed) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()
    assert len(set(first.tolist())) == 150


def test_recall_in_the_teachers_space_is_that_of_its_own_queries():
    """Documents around a circle; the student sees each third one turned away, by more each time."""
    angles = np.arange(40) ** 1.2 / 14
    turned = angles + np.where(np.arange(40) % 3 == 0, np.arange(40) / 25, 0)
    documents, queries = (np.stack([np.cos(a), np.sin(a)], axis=1) for a in (angles, turned))
    index = NearestNeighbors(n_neighbors=40, metric="cosine").fit(documents)
    shared = []
    for place in range(40):
        found, wanted = (
            [near for near in index.kneighbors(rows[[place]], return_distance=False)[0] if near != place][:10]
            for rows in (queries, documents)
        )
        shared.append(len({*found} & {*wanted}) / 10)
    assert shared[1] == shared[2] == 1 > shared[39]
    assert space_recall(queries, documents) == pytest.approx(np.mean(shared))
    assert space_recall(documents, documents) == 1


def test_the_map_into_a_space_is_least_squares():
    student = unit_rows(9, 400, 5).astype(np.float64)
    teacher = student @ np.random.default_rng(1).normal(size=(5, 8))
    expected = np.linalg.lstsq(student, teacher, rcond=None)[0].T
    assert np.allclose(fit_map(student, teacher), expected, atol=0.02)


def test_a_mapped_student_is_made_of_built_in_modules(tiny_folder, tmp_path, sentences):
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    weight = np.random.default_rng(0).normal(size=(8, 32))
    expected = cosine_similarity(model.encode(sentences[:5], normalize_embeddings=True) @ weight.T)
    map_into_space(model, weight)
    model.save_pretrained(str(tmp_path / "mapped"))
    found = SentenceTransformer(str(tmp_path / "mapped"), device="cpu").encode(sentences[:5])
    assert found.shape == (5, 8)
    assert np.allclose(found @ found.T, expected, atol=1e-5)


def test_dissent_is_found_by_leaving_one_out():
    draw = np.random.default_rng(0)
    truth = draw.normal(size=5000)
    agreeing = [zscore(truth + 0.3 * draw.normal(size=5000)) for _ in range(3)]
    assert find_dissent(agreeing) is None
    found = find_dissent([*agreeing, zscore(draw.normal(size=5000))])
    assert found is not None
    assert found.teacher == 3
    assert found.without > found.others > found.agreement
    assert find_dissent([truth, -truth]) is None  # of two, nobody knows which is wrong
