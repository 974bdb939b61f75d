"""Pairs with yes/no labels: every figure against scikit-learn, in every bootstrap sample."""

import json

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, precision_recall_curve, roc_auc_score

from rankencoder.evaluation.pair_metrics import GRADED, RECALLS, YES_NO, accept, metric_for, yes_no_figures
from rankencoder.evaluation.statistics import resample, spearman


def labeled(number=300, share=0.3, *, digits=2, seed=0):
    """Labels, and similarities that know something of them, many of them equal."""
    rng = np.random.default_rng(
        1000 + seed
    )  # others than the draws of the bootstrap, which would follow them
    gold = (rng.random(number) < share).astype(float)
    return gold, np.round(rng.normal(size=number) + 1.2 * gold, digits)


def best_f1(gold, similarities, weights=None):
    found = [
        (f1_score(gold, similarities >= at, sample_weight=weights), at) for at in np.unique(similarities)
    ]
    return max(found)


@pytest.mark.parametrize("digits", [1, 12])  # with ties, and without
def test_each_sample_is_scored_as_scikit_learn_scores_it(digits):
    gold, similarities = labeled(150, digits=digits)
    counts = resample(len(gold), rounds=5)
    accepted = accept(gold, similarities, counts)
    resampled = YES_NO.resampled(gold, np.stack([similarities, -similarities]), counts)
    f1, thresholds = accepted.best_f1()
    for i, weights in enumerate(counts):
        ap = average_precision_score(gold, similarities, sample_weight=weights)
        assert accepted.average_precision()[i] == pytest.approx(ap, abs=1e-12)
        assert resampled[0, i] == pytest.approx(ap, abs=1e-12)
        turned = average_precision_score(gold, -similarities, sample_weight=weights)
        assert resampled[1, i] == pytest.approx(turned, abs=1e-12)
        auc = roc_auc_score(gold, similarities, sample_weight=weights)
        assert accepted.auc()[i] == pytest.approx(auc, abs=1e-12)
        assert f1[i] == pytest.approx(best_f1(gold, similarities, weights)[0], abs=1e-12)
        at_least = f1_score(gold, similarities >= thresholds[i], sample_weight=weights)
        assert at_least == pytest.approx(f1[i], abs=1e-12)


def test_the_figures_of_a_set_are_those_of_scikit_learn_within_their_intervals():
    gold, similarities = labeled(1000)
    found = yes_no_figures(gold, similarities)
    assert found["average_precision"]["value"] == pytest.approx(
        100 * average_precision_score(gold, similarities)
    )
    assert found["auc"]["value"] == pytest.approx(100 * roc_auc_score(gold, similarities))
    f1, threshold = best_f1(gold, similarities)
    assert (found["best_f1"]["value"], found["threshold"]["value"]) == pytest.approx((100 * f1, threshold))
    for figure in ("average_precision", "auc", "best_f1", "threshold"):
        assert found[figure]["low"] <= found[figure]["value"] <= found[figure]["high"]
    precision, recall, thresholds = precision_recall_curve(gold, similarities)
    curve = found["curve"]
    assert curve["recall"] == list(RECALLS)
    for i, wanted in enumerate(RECALLS):
        place = np.flatnonzero(recall >= wanted / 100 - 1e-9)[-1]  # the highest threshold that reaches it
        assert curve["threshold"][i] == thresholds[place]
        assert curve["precision"][i] == pytest.approx(100 * precision[place])
        assert curve["low"][i] <= curve["precision"][i] <= curve["high"][i]


def test_intervals_cover_the_truth_as_often_as_they_say():
    """The AUC of two normal distributions 1.2 apart is known: Φ(1.2 / √2)."""
    from scipy.stats import norm

    truth, covered = 100 * norm.cdf(1.2 / 2**0.5), 0
    for seed in range(100):
        auc = yes_no_figures(*labeled(200, 0.4, digits=12, seed=seed))["auc"]
        covered += auc["low"] <= truth <= auc["high"]
    assert 88 <= covered <= 99  # 95 of 100, within three standard errors


def test_figures_by_hand():
    gold, similarities = np.array([5.0, 1, 5, 1]), np.array([0.9, 0.8, 0.7, 0.1])  # 5 is yes, 1 is no
    found = yes_no_figures(gold, similarities)
    values = {name: figure["value"] for name, figure in found.items() if name != "curve"}
    assert values["average_precision"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert values["auc"] == pytest.approx(75)  # 3 of 4 yes are above a no
    assert values["best_f1"] == pytest.approx(80)  # 2 of 3 accepted are right, none is missed
    assert values["threshold"] == 0.7


def test_a_perfect_similarity_has_an_average_precision_of_1_but_no_spearman_of_1():
    gold = np.repeat([0.0, 1.0], 500)
    similarities = np.arange(1000.0)
    assert metric_for(gold).score(gold, similarities) == 1
    assert spearman(gold, similarities) == pytest.approx(3**0.5 / 2, abs=1e-6)


def test_the_kind_of_a_set_is_known_by_its_scores():
    assert metric_for([0, 1, 0]) is metric_for([-1, 1]) is metric_for([1.0, 5.0, 5.0]) is YES_NO
    assert metric_for([0, 1, 2]) is metric_for([0.0, 0.5, 1.0]) is GRADED


def test_samples_without_a_yes_are_undefined_and_similarities_that_are_no_numbers_too():
    gold, similarities = np.array([1.0, 0, 0]), np.array([0.3, 0.2, 0.1])
    assert np.isnan(YES_NO.resampled(gold, similarities, np.array([[0, 2, 1]], dtype=np.uint16)))[0, 0]
    assert np.isnan(YES_NO.score(gold, np.array([0.3, np.nan, 0.1])))
    assert np.isfinite(yes_no_figures(gold, similarities)["auc"]["low"])


def vowels(texts):
    return [[1.0 + text.count(letter) for letter in "aeiou"] for text in texts]


@pytest.fixture(name="files")
def fixture_files(tmp_path):
    """The same sentences with yes/no labels, and with scores."""
    rng = np.random.default_rng(7)
    texts = [["".join(rng.choice(list("aeioubcd"), 12)) for _ in range(2)] for _ in range(120)]
    labels = rng.integers(0, 2, 120)
    for name, gold in (("asked", labels), ("scored", rng.integers(0, 6, 120))):
        lines = [f"{score}\t{a}\t{b}\n" for score, (a, b) in zip(gold, texts, strict=True)]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    vectors = np.array([vowels(pair) for pair in texts])
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    cosines = (vectors[:, 0] * vectors[:, 1]).sum(axis=1)
    return tmp_path / "asked.tsv", tmp_path / "scored.tsv", average_precision_score(labels, cosines)


CORPUS = [f"sentence {i} " + "aeiou"[i % 5] * (i % 17) + "eio"[i % 3] * (i % 7) for i in range(1200)]


def test_evaluate_and_report_show_what_labels_call_for(files, tmp_path):
    from rankencoder.evaluation.evaluator import evaluate
    from rankencoder.report import report

    asked, scored, expected = files
    tasks = ["sts", "choice"]
    found = evaluate(vowels, dev=[asked, scored], corpus=CORPUS, tasks=tasks, cache=False, output=tmp_path)
    row = found.rows()[0]
    assert row.mean("asked") == pytest.approx(100 * expected, abs=1e-3)
    assert list(row.yes_no) == ["asked"]
    stored = json.loads(found.files[0].read_text())
    assert stored["sts"]["cosine"]["scores"]["asked"]["yes_no"] == row.yes_no["asked"][0]
    assert stored["choice"][""]["metric"] == "mean of average precision and Spearman"
    assert "scored and yes/no pairs" in stored["choice"][""]["sentence"]
    text = report(found, format="md")
    figures = row.yes_no["asked"][0]
    assert f"{figures['auc']['value']:.1f} ({figures['auc']['low']:.1f}–" in text
    page = report(found)
    assert page.count("<figure") == 1
    assert "precision-recall" in page
    boot = row.bootstrap("asked")  # the interval of the tile is that of the table
    assert np.quantile(boot.samples, 0.025) == pytest.approx(figures["average_precision"]["low"])


def test_tune_chooses_by_average_precision(files):
    from rankencoder.tuning.tuner import tune

    asked, scored, expected = files
    choice = tune(vowels, asked, corpus=CORPUS, progress=False).choice
    assert choice.cosine.score == pytest.approx(expected, abs=1e-5)
    assert choice.metric in choice.sentence()
    assert "120 yes/no pairs" in choice.sentence()
    both = tune(vowels, [asked, scored], corpus=CORPUS, progress=False).choice
    graded = tune(vowels, scored, corpus=CORPUS, progress=False).choice
    assert graded.metric == "Spearman"
    assert both.cosine.score == pytest.approx((choice.cosine.score + graded.cosine.score) / 2)


def test_dev_pairs_of_a_training_are_scored_by_their_own_metric(files, tiny_folder):
    from sentence_transformers import SentenceTransformer

    from rankencoder.distillation.agreement import measure_gain
    from rankencoder.encoders import Encoder
    from rankencoder.training.loop.evaluators import make_evaluator

    model = SentenceTransformer(str(tiny_folder), device="cpu")
    asked, scored = map(str, files[:2])
    labels, a, b = zip(*(line.split("\t") for line in files[0].read_text().splitlines()), strict=True)
    cosines = model.similarity_pairwise(model.encode(list(a)), model.encode(list(b)))
    expected = average_precision_score(np.array(labels, dtype=int), cosines)
    evaluator = make_evaluator([asked])
    assert (evaluator.metric, evaluator.pairs) == ("average precision", "yes/no dev pairs")
    assert evaluator(model)["sequential_score"] == pytest.approx(expected, abs=1e-4)
    graded = make_evaluator([scored])(model)["sequential_score"]
    both = make_evaluator([asked, scored])
    assert both.metric == "mean of average precision and Spearman"
    assert both(model)["sequential_score"] == pytest.approx((expected + graded) / 2, abs=1e-4)
    gain = measure_gain([asked], Encoder(model), Encoder(model))
    assert gain["metric"] == "average precision"
    assert gain["before"] == gain["after"] == pytest.approx(expected, abs=1e-4)


def test_weights_count_in_evaluation_and_training_as_in_scikit_learn(files, tiny_folder, tmp_path):
    from sentence_transformers import SentenceTransformer

    from rankencoder.distillation.agreement import measure_gain
    from rankencoder.encoders import Encoder
    from rankencoder.evaluation.evaluator import evaluate
    from rankencoder.training.loop.evaluators import make_evaluator

    rows = [line.split("\t") for line in files[0].read_text().splitlines()]
    weights = np.random.default_rng(0).uniform(0.1, 9, len(rows)).round(3)
    path = tmp_path / "weighted.tsv"
    lines = ["\t".join([*row, str(weight)]) for row, weight in zip(rows, weights, strict=True)]
    path.write_text("\n".join(["score\tsentence1\tsentence2\tweight", *lines]))
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    labels, a, b = zip(*rows, strict=True)
    gold = np.array(labels, dtype=int)
    cosines = model.similarity_pairwise(model.encode(list(a)), model.encode(list(b))).numpy()
    ap = average_precision_score(gold, cosines, sample_weight=weights)
    assert abs(ap - average_precision_score(gold, cosines)) > 0.005
    assert make_evaluator([str(path)])(model)["sequential_score"] == pytest.approx(ap, abs=1e-4)
    assert measure_gain([str(path)], Encoder(model), Encoder(model))["before"] == pytest.approx(ap, abs=1e-4)
    row = evaluate(Encoder(model), dev=path, tasks=["sts"], cache=False, progress=False).rows()[0]
    figures = row.yes_no["weighted"][0]
    assert figures["auc"]["value"] == pytest.approx(
        100 * roc_auc_score(gold, cosines, sample_weight=weights), abs=0.01
    )
    assert figures["best_f1"]["value"] == pytest.approx(100 * best_f1(gold, cosines, weights)[0], abs=0.01)
    assert row.mean("weighted") == figures["average_precision"]["value"] == pytest.approx(100 * ap, abs=0.01)
    samples = row.bootstrap("weighted").samples
    assert np.quantile(samples, 0.025) == pytest.approx(figures["average_precision"]["low"])
    assert len(set(np.round(samples, 6))) > 100
