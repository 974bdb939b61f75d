"""Without scored pairs weights are chosen by the halves of sentences: the score is scikit-learn's."""

import logging

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sklearn.metrics import roc_auc_score
from training_runs import same_weights

import rankencoder
from rankencoder.errors import TrainingWarning
from rankencoder.evaluation.halves import halved
from rankencoder.training.loop import evaluators
from rankencoder.training.loop.evaluators import halves_auc, smoothed, unlabeled_evaluator

pytestmark = pytest.mark.filterwarnings("ignore:a corpus of:rankencoder.errors.TrainingWarning")
STEPS = {"eval_steps": 2, "max_steps": 5, "only_base": True}


@pytest.fixture(scope="module")
def long_sentences(sentences):
    """300 sentences of thirteen words."""
    return [f"{a} and {b}" for a, b in zip(sentences[:300], sentences[-300:], strict=True)]


def oracle(a, b):
    """Halves of one sentence against a first half with the second half of the next sentence."""
    cosines = np.concatenate([(a * b).sum(1), (a * np.roll(b, -1, axis=0)).sum(1)])
    return roc_auc_score(np.repeat([1, 0], len(a)), cosines)


def looks(run):
    return {entry["step"]: entry["halves"] for entry in run.record["history"] if "halves" in entry}


def told(monkeypatch, *scores):
    """The scores of the looks are these."""
    left = iter(scores)
    monkeypatch.setattr(evaluators, "halves_auc", lambda *_: next(left))


def test_the_score_is_sklearns_auc():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(300, 8))
    b = a + 2 * rng.normal(size=a.shape)
    assert halves_auc(torch.from_numpy(a), torch.from_numpy(b)) == pytest.approx(oracle(a, b))
    a, b = np.sign(a), np.sign(b)  # many ties
    assert halves_auc(torch.from_numpy(a), torch.from_numpy(b)) == pytest.approx(oracle(a, b))
    assert halves_auc(torch.full((5, 2), torch.nan), torch.ones(5, 2)) == 0


def test_smoothed_is_numpys_mean():
    scores = np.random.default_rng(0).normal(size=9)
    expected = [scores[:2].mean(), *np.convolve(scores, np.ones(3) / 3, "valid"), scores[-2:].mean()]
    assert smoothed(scores.tolist()) == pytest.approx(expected)


def test_the_weights_that_tell_halves_best_are_saved(train, long_sentences, caplog):
    with caplog.at_level(logging.INFO, "rankencoder.training"):
        run = train(corpus=long_sentences, learning_rate=1e-3, **{**STEPS, "max_steps": 7})
    scores = looks(run)
    assert list(scores) == [0, 2, 4, 6, 7]
    (stage,) = run.record["stages"]
    best, steps = stage["best"], list(scores)
    assert best["halves"] == pytest.approx(max(smoothed(list(scores.values()))))
    at = steps.index(best["step"])
    assert best["halves"] == pytest.approx(np.mean([scores[step] for step in steps[max(0, at - 1) : at + 2]]))
    model = SentenceTransformer(str(run.encoder), device="cpu")
    a, b = (
        model.encode(list(side), normalize_embeddings=True)
        for side in zip(*halved(long_sentences), strict=True)
    )
    assert scores[best["step"]] == pytest.approx(oracle(a, b), abs=1e-4)
    assert (
        "stage 1: no scored pairs: the halves of 300 sentences choose the weights, by AUC" in caplog.messages
    )


@pytest.mark.parametrize(
    ("scores", "step"),
    [
        ((0.2, 0.9, 0.7, 0.5, 0.75, 0.55), 2),  # the means: .55 .6 .7 .65 .6 .65
        ((0.5, 0.9, 0.4, 0.7, 0.8, 0.8), 5),
        ((0.9, 0.8, 0.6, 0.9, 0.7, 0.7), 0),
    ],
)
def test_a_look_is_judged_with_its_neighbors(train, long_sentences, monkeypatch, caplog, scores, step):
    told(monkeypatch, *scores)
    with caplog.at_level(logging.INFO, "rankencoder.training"):
        run = train(corpus=long_sentences, **{**STEPS, "eval_steps": 1})
    where = f"step {step} of 5" if step else "the start"
    kept = f"keeping the weights that tell sentence halves best ({where})"
    assert f"stage 1: no scored pairs: {kept}" in caplog.messages
    assert run.record["stages"][0]["best"]["step"] == step == np.argmax(smoothed(scores))
    monkeypatch.undo()
    same = train("same", corpus=long_sentences, **{**STEPS, "eval_steps": 1})
    kept = SentenceTransformer(str(run.encoder), device="cpu")
    a, b = (
        kept.encode(list(side), normalize_embeddings=True)
        for side in zip(*halved(long_sentences), strict=True)
    )
    assert looks(same)[step] == pytest.approx(oracle(a, b), abs=1e-4)


@pytest.mark.parametrize(("scores", "step"), [((0.6, 0.7), 3), ((0.7, 0.6), 0)])
def test_of_two_looks_the_better_one_is_kept(train, long_sentences, monkeypatch, scores, step):
    told(monkeypatch, *scores)
    run = train(corpus=long_sentences, eval_steps=10, max_steps=3, only_base=True)
    assert run.record["stages"][0]["best"] == {"step": step, "halves": pytest.approx(0.65)}


def test_patience_counts_the_looks_that_are_judged(train, long_sentences, monkeypatch):
    told(monkeypatch, 0.1, 0.5, 0.7, 0.6, 0.5, 0.4, 0.3)  # step 2 or 3 is best: .6 each with its neighbors
    run = train(corpus=long_sentences, eval_steps=1, max_steps=6, patience=2, only_base=True)
    (stage,) = run.record["stages"]
    assert stage["best"]["step"] == 2
    assert stage["steps"] == 5  # which tells that 4 is no better than 3 was


@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_a_resumed_run_keeps_the_same_weights(
    train, train_killed, long_sentences, tmp_path, monkeypatch, step
):
    given = {
        "corpus": long_sentences,
        "learning_rate": 1e-3,
        "eval_steps": 1,
        "max_steps": 6,
        "save_steps": 1,
    }
    whole = train("whole", only_base=True, **given)
    train_killed("cut", stage=1, step=step, only_base=True, **given)
    resumed = rankencoder.train(output=tmp_path / "cut", resume=True, progress=False)
    assert looks(resumed) == looks(whole)
    assert resumed.record["stages"][0]["best"] == whole.record["stages"][0]["best"]
    assert same_weights(whole.encoder, resumed.encoder)


def test_a_start_that_tells_halves_best_is_kept(train, long_sentences, tiny_folder, caplog):
    run = train(corpus=long_sentences, backbone=str(tiny_folder), learning_rate=0.3, **STEPS)
    assert run.record["stages"][0]["best"]["step"] == 0
    assert same_weights(run.encoder, tiny_folder)
    assert any("tell sentence halves best (the start)" in message for message in caplog.messages)


@pytest.mark.filterwarnings("ignore:a reference corpus of:rankencoder.errors.ReferenceWarning")
def test_both_stages_and_all_teachers_are_chosen_so(train, long_sentences):
    run = train(
        corpus=long_sentences, method="simcse", teachers=["simcse", "consert"], eval_steps=1, max_steps=2
    )
    stages = [*run.record["stages"], *run.record["teachers"]["consert"]["stages"]]
    assert len(stages) == 3
    assert all(stage["best"].keys() == {"step", "halves"} for stage in stages)
    assert {stage["metric"] for stage in stages} == {"AUC"}


def test_scored_pairs_go_before_halves(train, long_sentences, tmp_path):
    dev = tmp_path / "dev.tsv"
    dev.write_text("".join(f"{i % 5}\tThe cat sees {i}\tThe dog likes {i * 7}\n" for i in range(40)))
    run = train(corpus=long_sentences, dev=[str(dev)], **STEPS)
    assert {"step", "dev"} == run.record["stages"][0]["best"].keys()


def test_short_sentences_leave_the_last_weights_and_a_warning(train):
    with pytest.warns(TrainingWarning, match="fewer than 200 sentences of 8 words: keeping the last weights"):
        run = train(**STEPS)
    assert run.record["stages"][0]["best"] is None


def test_sentences_are_taken_from_the_whole_corpus():
    from datasets import Dataset

    texts = [f"{i} is one of the numbers that we count" for i in range(50_000)]
    found = [
        int(first.split()[0]) for first, _ in unlabeled_evaluator(Dataset.from_dict({"text": texts})).halves
    ]
    assert len(found) == len(set(found)) == 1_000
    assert np.diff(found).max() < 100
    assert max(found) > 49_800
