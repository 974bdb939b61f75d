"""Labeling pairs, thresholds from labels, and P(same) wherever similarities are shown."""

import io
import json
import shutil
import time

import httpx
import numpy as np
import pytest
from live_server import serving
from sklearn.metrics import average_precision_score

from conftest import letters
from rankencoder import RankEncoder, RankIndex
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError, LabelWarning
from rankencoder.evaluation.candidates import Candidate as Similarity
from rankencoder.evaluation.choice import choose
from rankencoder.io.pairs import ScoredPair, read_scored_pairs
from rankencoder.labels.fitted_curve import fit_curve
from rankencoder.labels.pair_pool import PairPool
from rankencoder.labels.sitting import Sitting, pool_file
from rankencoder.labels.threshold_curve import STORED, ThresholdCurve
from rankencoder.search.records import draw_pool


@pytest.fixture
def model(tiny_saved, tmp_path):
    """A copy of the tiny RankEncoder: curves are stored in its folder."""
    return shutil.copytree(tiny_saved, tmp_path / "model")


@pytest.fixture(scope="module")
def pool(sentences):
    return draw_pool(letters, sentences[:600])


def means_the_same(a, b):
    """The labeler's truth: the same verb and object."""
    return a.split()[2:5] == b.split()[2:5]


def same_verb(a, b):
    return a.split()[2] == b.split()[2]


def sit(sitting, number, truth=means_the_same):
    while len(sitting.given) < number and (asked := sitting.question()):
        sitting.answer(truth(asked.a, asked.b))
    return sitting


def labeled(path, pool, number=60, truth=means_the_same, **settings):
    with Sitting(path, pool, **settings) as sitting:
        return sit(sitting, number, truth)


# --- pools


def test_candidates_are_the_nearest_neighbors_and_all_are_counted(sentences):
    from sklearn.neighbors import NearestNeighbors

    texts = sentences[:300]
    vectors = Encoder(letters).encode(texts)
    pool = PairPool.of_vectors(texts, vectors, model="m", name="n")
    near = NearestNeighbors(n_neighbors=11, metric="cosine", algorithm="brute").fit(vectors)
    distances, found = near.kneighbors(vectors)
    lowest = 1 - distances[:, -1]
    expected = {(i, int(j)) for i, row in enumerate(found) for j in row if i != j}
    place = {text: i for i, text in enumerate(texts)}
    offered = [one for row in pool.bins for one in row]
    assert pool.population.sum() == len(expected)  # of a sentence and one of its ten nearest
    assert len({frozenset((one.a, one.b)) for one in offered}) == len(offered)
    for one in offered:
        i, j = place[one.a], place[one.b]
        assert one.similarity == pytest.approx(vectors[i] @ vectors[j], abs=1e-5)
        assert one.similarity >= min(lowest[i], lowest[j]) - 1e-5
        assert pool.edges[one.bin] <= one.similarity + 1e-6
        assert one.similarity <= pool.edges[one.bin + 1] + 1e-6


def test_a_sample_of_a_large_corpus_counts_for_all_of_it(monkeypatch, sentences):
    from rankencoder.labels import pair_pool

    vectors = Encoder(letters).encode(sentences)
    whole = PairPool.of_vectors(sentences, vectors, model="m", name="n")
    monkeypatch.setattr(pair_pool, "_ANCHORS", 200)
    part = PairPool.of_vectors(sentences, vectors, model="m", name="n")
    assert whole.population.sum() == part.population.sum() == 10 * len(sentences)
    assert whole.draw_populations() is None
    drawn = part.draw_populations()
    assert drawn.mean(axis=0) == pytest.approx(part.population, rel=0.2, abs=20)
    top = slice(30, None)  # the most similar pairs are mostly so both ways: they must not count more often
    assert part.population[top].sum() == pytest.approx(whole.population[top].sum(), rel=0.35)


@pytest.mark.parametrize("texts", [[], ["one"], ["one", "two", "one"]])
def test_too_few_sentences(texts):
    with pytest.raises(InputError, match="cannot draw pairs from . different sentences"):
        draw_pool(letters, texts)


# --- sittings


def test_every_answer_is_written_at_once_and_a_sitting_resumes(pool, tmp_path):
    path = tmp_path / "labels.tsv"
    with Sitting(path, pool) as sitting:
        for number in range(1, 13):
            sit(sitting, number)
            assert len(read_scored_pairs(path, check=False)) == number
        sitting.answer(None)
        asked = sitting.question()
    resumed = Sitting.resume(path)
    assert resumed.given == sitting.given
    assert resumed.skipped == sitting.skipped
    assert resumed.question() == asked
    for name in ("a", "b"):
        labeled(tmp_path / f"{name}.tsv", pool, 20 if name == "a" else 33)
        with Sitting.resume(tmp_path / f"{name}.tsv") as continued:
            sit(continued, 40)
    assert continued.given == Sitting.resume(tmp_path / "a.tsv").given


def test_undo_asks_the_same_again(pool, tmp_path):
    with Sitting(tmp_path / "labels.tsv", pool) as sitting:
        assert not sitting.undo()
        sit(sitting, 5)
        asked = sitting.question()
        sitting.answer(True)
        assert sitting.undo()
        assert sitting.question() == asked
        sitting.answer(None)
        assert sitting.undo()
        assert sitting.question() == asked
        assert len(read_scored_pairs(sitting.path, check=False)) == 5


def test_no_pair_is_asked_twice_but_for_checks(pool, tmp_path):
    sitting = labeled(tmp_path / "labels.tsv", pool, 90)
    asked = [(one.a, one.b) for one, _ in sitting.given]
    assert len(set(asked)) == len(asked) == 90
    assert len(sitting.checks) == 5
    assert all(right for _, right in sitting.checks)
    assert sitting.doubts() == []


def test_weights_add_up_to_all_pairs(pool, tmp_path):
    sitting = labeled(tmp_path / "labels.tsv", pool, 60)
    weights = [pair.weight for pair in read_scored_pairs(sitting.path)]
    assert sum(weights) == pytest.approx(pool.population.sum(), rel=1e-4)


def test_a_labeler_who_contradicts_themselves_is_told(pool, tmp_path):
    flips = iter(range(10_000))
    careless = labeled(tmp_path / "a.tsv", pool, 60, lambda a, b: next(flips) % 3 == 0)
    assert any("check questions were answered wrongly" in doubt for doubt in careless.doubts())
    always = labeled(tmp_path / "b.tsv", pool, 30, lambda a, b: True)
    assert "all 30 answers are yes" in always.doubts()


def test_two_labelers_on_one_file(pool, tmp_path):
    path = tmp_path / "labels.tsv"
    with Sitting(path, pool) as first:
        with pytest.raises(InputError, match="locked by another labeler: .* then `merge` it"):
            Sitting(path, pool).__enter__()
        sit(first, 10)
    labeled(tmp_path / "other.tsv", pool, 15, lambda a, b: not means_the_same(a, b))
    with Sitting.resume(path) as sitting:
        other = Sitting.resume(tmp_path / "other.tsv")
        common = {(one.a, one.b) for one, _ in first.given} & {(one.a, one.b) for one, _ in other.given}
        assert common
        new = sitting.merge(other)
        assert new == 15 - len(common)
        assert len(sitting.given) == 10 + new - len(common)
        assert f"the labelers disagree on {len(common)} pairs" in " ".join(sitting.doubts())
        assert sitting.merge(other) == 0  # again: nothing changes
        assert len(sitting.given) == 10 + new - len(common)
    resumed = Sitting.resume(path)
    assert (len(resumed.disputed), resumed.shared) == (len(common), len(common))
    with resumed as sitting:  # the other's pairs are not asked again
        sit(sitting, len(sitting.given) + 15)
        asked = [frozenset((one.a, one.b)) for one, _ in sitting.given]
    assert len(set(asked)) == len(asked)
    with Sitting.resume(path) as sitting, pytest.raises(InputError, match="with itself"):
        sitting.merge(Sitting.resume(path))
    labeled(tmp_path / "third.tsv", draw_pool(letters, ["a b", "b c", "c d", "d e"]), 1)
    with Sitting.resume(path) as sitting, pytest.raises(InputError, match="differ in model, corpus or seed"):
        sitting.merge(Sitting.resume(tmp_path / "third.tsv"))


def test_damaged_files_of_a_sitting(pool, tmp_path):
    sitting = labeled(tmp_path / "labels.tsv", pool, 5)
    sitting.path.write_text(sitting.path.read_text() + "1\tnobody asked\tfor this\t1\t0.5\n")
    with pytest.raises(InputError, match="'nobody asked' and 'for this' are not an unanswered pair"):
        Sitting.resume(sitting.path)
    stored = json.loads(pool_file(sitting.path).read_text())
    answers = sitting.path.read_text().splitlines()
    sitting.path.write_text("\n".join([*answers[:-1], answers[1]]) + "\n")
    with pytest.raises(InputError, match="are not an unanswered pair of this session"):
        Sitting.resume(sitting.path)
    negative = [-1.0] * len(stored["population"])
    for damage in (
        {"edges": [0, 1]},
        {"edges": stored["edges"][::-1]},
        {"bins": [1]},
        {"population": ["x"]},
        {"population": negative},
        {"obvious": None},
        {"precision": "x"},
        {"disputed": 5},
    ):
        pool_file(sitting.path).write_text(json.dumps({**stored, **damage}))
        with pytest.raises(InputError, match="damaged|not a complete pool"):
            Sitting.resume(sitting.path)


def test_a_question_is_ready_within_a_moment(pool, tmp_path):
    """A generous bound on a busy machine; `benchmarks/thresholds.py` measures it."""
    with Sitting(tmp_path / "labels.tsv", pool) as sitting:
        sit(sitting, 25)
        times = []
        for _ in range(10):
            began = time.perf_counter()
            sit(sitting, len(sitting.given) + 1)
            times.append(time.perf_counter() - began)
    assert min(times) < 0.25


# --- curves


def test_labels_of_a_sitting_tell_the_truth(sentences, tmp_path):
    """The truth is known for all pairs of the pool, which holds all candidates of a small corpus."""
    encoder = Encoder(letters)
    pool = draw_pool(encoder, sentences[:90])
    assert max(map(len, pool.bins)) < 100  # so the pool is the whole
    sitting = labeled(tmp_path / "labels.tsv", pool, 150, same_verb)
    curve = fit_curve(encoder, sitting.path)
    pairs = [one for row in pool.bins for one in row]
    same = np.array([same_verb(one.a, one.b) for one in pairs])
    similarities = np.array([one.similarity for one in pairs])
    inside = []
    for at in range(5, 35):
        above = similarities >= curve.thresholds[at]
        if same[above].any():
            truth = same[above].mean()
            inside.append(curve.precision.low[at] - 1e-6 <= truth <= curve.precision.high[at] + 1e-6)
    assert np.mean(inside) >= 0.8
    assert curve.answers == 150


def test_labels_serve_another_model(pool, tmp_path, tiny_folder):
    path = labeled(tmp_path / "labels.tsv", pool, 60).path
    with pytest.warns(LabelWarning, match="was drawn for .*: the intervals for .* are wider"):
        curve = fit_curve(Encoder(str(tiny_folder), device="cpu"), path)
    assert curve.answers > 0
    assert np.isfinite(curve.precision.value).all()


def test_labels_that_say_nothing(tmp_path):
    encoder = Encoder(letters)
    path = tmp_path / "labels.tsv"
    for rows, message in (
        (["0\ta\tb"] * 5 + ["1\tb\tc"], "6 answers are too few for a threshold: label at least 20"),
        ([f"{i % 3}\ta {i}\tb" for i in range(30)], "needs yes/no labels, but there are 3 different scores"),
        ([f"1\ta {i}\tb" for i in range(30)], "all labels are 1: a threshold needs both yes and no"),
    ):
        path.write_text("\n".join(rows) + "\n")
        with pytest.raises(InputError, match=message):
            fit_curve(encoder, path)
    path.write_text("score\tsentence1\tsentence2\tweight\n0\ta\tb\t1\n1\tb\tc\t-2\n")
    with pytest.raises(InputError, match="line 3: the weight '-2' is not a positive number"):
        read_scored_pairs(path)


def test_a_stored_curve_comes_back_and_is_checked(pool, tmp_path):
    curve = labeled(tmp_path / "labels.tsv", pool, 60).curve()
    curve.save(tmp_path)
    read = ThresholdCurve.load(tmp_path / STORED)
    assert read.precision.sure == pytest.approx(curve.precision.sure, abs=1e-5)
    assert read.p_same(0.7) == pytest.approx(curve.p_same(0.7), abs=1e-5)
    stored = json.loads((tmp_path / STORED).read_text())
    for damage in ({"thresholds": [1, 0]}, {"recall": {}}, {"precision": {**stored["recall"], "low": [2.0]}}):
        (tmp_path / STORED).write_text(json.dumps({**stored, **damage}))
        with pytest.raises(InputError, match="not a complete threshold curve"):
            ThresholdCurve.load(tmp_path / STORED)


def test_weights_are_read_from_every_format_and_have_no_unit(tmp_path):
    rng = np.random.default_rng(0)
    texts = [f"cat {i} dog {j}" for i in range(20) for j in range(3)]
    labels, weights = rng.integers(2, size=60), rng.uniform(1, 9, 60).round(3)
    rows = [(int(y), text, f"{text} river", w) for y, text, w in zip(labels, texts, weights, strict=True)]
    names = ("score", "sentence1", "sentence2", "weight")
    files = [tmp_path / f"w.{suffix}" for suffix in ("tsv", "csv", "jsonl")]
    files[0].write_text("\n".join("\t".join(map(str, row)) for row in [names, *rows]))
    files[1].write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in [names, *rows]))
    files[2].write_text("\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows))
    for file in files:
        assert [pair.weight for pair in read_scored_pairs(file)] == pytest.approx(weights)
    curve = fit_curve(Encoder(letters), files[0])
    files[0].write_text(
        "\n".join("\t".join(map(str, row)) for row in [names, *((*r[:3], r[3] * 1e-9) for r in rows)])
    )
    assert fit_curve(Encoder(letters), files[0]).precision.value == pytest.approx(
        curve.precision.value, abs=0.02
    )


def test_equal_similarities_have_no_threshold(tmp_path):
    (tmp_path / "l.tsv").write_text("".join(f"{i % 2}\ta {i}\tb {i}\n" for i in range(40)))
    with pytest.raises(InputError, match="all pairs have the same similarity"):
        fit_curve(Encoder(lambda texts: np.ones((len(texts), 4))), tmp_path / "l.tsv")


def test_tuning_counts_weights_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    gold = (rng.random(200) < 0.4).astype(float)
    rows = np.stack([gold + rng.normal(size=200), gold + 2 * rng.normal(size=200)])
    weights = rng.uniform(0.1, 5, 200)
    pairs = [ScoredPair(f"a {i}", f"b {i}", *row) for i, row in enumerate(zip(gold, weights, strict=True))]
    kinds = [Similarity(None, {}, 0.0), Similarity("exact", {}, 1.0)]
    found = choose({"set": pairs}, kinds, rows)
    expected = [average_precision_score(gold, row, sample_weight=weights) for row in rows]
    assert [result.score for result in found.results] == pytest.approx(expected)
    plain = choose({"set": [pair._replace(weight=1.0) for pair in pairs]}, kinds, rows)
    assert plain.results[0].score == pytest.approx(average_precision_score(gold, rows[0]))


# --- the commands


@pytest.fixture
def answer(monkeypatch):
    """Type answers, a key a line, into a standard input that is no terminal."""

    def give(keys):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{key}\n" for key in keys)))

    return give


@pytest.fixture
def labels(run_cli, answer, model, corpus_file, tmp_path):
    """Labels of the tiny model, by a person who alternates."""
    answer("yn" * 40)
    code, out, err = run_cli("label", model, corpus_file, "-o", tmp_path / "labels.tsv", "--pairs", 40)
    assert code == 0, err
    assert f"next: rankencoder threshold {model} {tmp_path / 'labels.tsv'} --precision 0.9" in out
    assert "40 answers." in out
    assert "more answers halve the interval" in out
    return tmp_path / "labels.tsv"


def test_labels_of_an_index_lead_to_its_threshold(run_cli, answer, model, corpus_file, tmp_path):
    index = RankIndex.build(str(model), corpus_file, tmp_path / "index", device="cpu")
    answer("yn" * 20)
    _, out, _ = run_cli("label", model, index.folder.path, "-o", tmp_path / "labels.tsv", "--pairs", 20)
    assert f"next: rankencoder threshold {index.folder.path} {tmp_path / 'labels.tsv'} --precision 0.9" in out


def test_the_model_of_an_index_is_loaded_only_if_it_has_changed(model, corpus_file, tmp_path, monkeypatch):
    index = RankIndex.build(str(model), corpus_file, tmp_path / "index", device="cpu").folder.path
    loaded = RankEncoder.load(model, device="cpu")
    expected = draw_pool(loaded, corpus_file, name=str(model))
    with monkeypatch.context() as patched:
        patched.setattr("rankencoder.search.rank_index.open_model", None)
        pool = draw_pool(str(model), index)
    assert (pool.model, pool.name) == (expected.model, expected.name)
    assert pool.edges == pytest.approx(expected.edges, abs=1e-6)
    RankEncoder(loaded.encoder, loaded.reference, rank_weight=0.9).save(model, overwrite=True)
    with pytest.raises(InputError, match="was made with"):
        draw_pool(str(model), index)
    RankIndex.create(loaded, tmp_path / "empty")
    with pytest.raises(InputError, match="cannot draw pairs from 0 different sentences"):
        draw_pool(loaded, tmp_path / "empty")


def test_label_stops_resumes_and_undoes(run_cli, answer, model, corpus_file, tmp_path):
    command = ("label", model, corpus_file, "-o", tmp_path / "my labels.tsv", "--pairs", 6)
    answer("ynx?uysq")
    code, out, err = run_cli(*command)
    assert code == 0
    assert "'x' is not an answer" in err
    assert "2 answers" in out
    assert "run the same command again" in out
    assert f"threshold {model} '{tmp_path}/my labels.tsv' --precision" in out
    answer("yyyyyyyy")
    assert "labels.tsv: 6 answers" in run_cli(*command)[1]
    assert len(read_scored_pairs(tmp_path / "my labels.tsv", check=False)) == 6
    loaded = RankEncoder.load(model, device="cpu")
    RankEncoder(loaded.encoder, loaded.reference, rank_weight=0.9).save(model, overwrite=True)
    code, _, err = run_cli(*command)  # the same name
    assert (code, "which is not this model or has changed" in err) == (2, True)
    (tmp_path / "own.tsv").write_text("1\ta\tb\n")
    code, _, err = run_cli("label", model, corpus_file, "-o", tmp_path / "own.tsv")
    assert (code, "is not a file of labels to resume" in err) == (2, True)


def test_threshold_is_stored_and_shown_everywhere(run_cli, labels, model, corpus_file, tmp_path):
    picture = tmp_path / "curve.svg"
    code, out, _ = run_cli("threshold", model, labels, "--precision", 0.05, "--curve", picture)
    assert code == 0
    assert "precision at least 0.05, 90% sure" in out
    assert "95% interval" in out
    assert "P(same)" in picture.read_text()
    loaded = RankEncoder.load(model, device="cpu")
    curve = ThresholdCurve.load(model / STORED)
    a, b = "The cat sees the dog", "The dog sees the cat"
    expected = float(curve.p_same(loaded.similarity(a, b)[0, 0]))
    _, out, _ = run_cli("similarity", model, a, b, "--json")
    assert json.loads(out)[0]["probability"] == pytest.approx(expected, abs=1e-4)
    assert "P(same)" in run_cli("similarity", model, a, b)[1]
    assert f"P(same) {expected:.2f}" in run_cli("explain", model, a, b)[1]
    index = RankIndex.build(str(model), corpus_file, tmp_path / "index", device="cpu")
    hit = index.search(a, 3)[2]
    assert hit.probability == pytest.approx(curve.p_same(hit.score), abs=1e-4)
    assert "P(same)" in run_cli("search", tmp_path / "index", a)[1]
    with serving(loaded, name="tiny", index=index) as address:
        found = httpx.post(f"{address}/similarity", json={"a": [a], "b": [b]}).json()
        assert found["probability"][0][0] == pytest.approx(expected, abs=1e-4)
        found = httpx.post(f"{address}/explain", json={"a": a, "b": b}).json()
        assert found["probability"] == pytest.approx(expected, abs=1e-4)
        found = httpx.post(f"{address}/search", json={"query": a}).json()
        assert found["results"][2]["probability"] == pytest.approx(hit.probability, abs=1e-4)
        lines = labels.read_text().splitlines()  # another threshold while it serves
        labels.with_name("fewer.tsv").write_text("\n".join(lines[:31]))
        run_cli("threshold", model, labels.with_name("fewer.tsv"), "--f1")
        other = ThresholdCurve.load(model / STORED)
        assert other.answers == 30
        found = httpx.post(f"{address}/similarity", json={"a": [a], "b": [b]}).json()
        assert found["probability"][0][0] == pytest.approx(other.p_same(found["similarity"][0][0]), abs=1e-4)
        found = httpx.post(f"{address}/search", json={"query": a}).json()
        assert found["results"][2]["probability"] == pytest.approx(other.p_same(hit.score), abs=1e-4)


def test_a_damaged_curve_stops_nothing(run_cli, labels, model):
    run_cli("threshold", model, labels, "--f1")
    (model / STORED).write_text("{")
    code, out, err = run_cli("similarity", model, "The cat", "The dog")
    assert (code, "P(same)" in out) == (0, False)
    assert "is damaged or of another version, and is not used: fit a threshold again" in err


def test_another_rank_weight_makes_a_curve_invalid(run_cli, labels, model):
    run_cli("threshold", model, labels, "--f1")
    _, out, err = run_cli("similarity", model, "The cat", "The dog", "--rank-weight", 0.9)
    assert "P(same)" not in out
    assert "was made for another model or rank weight, and is not used: fit a threshold again" in err


def test_a_promise_that_cannot_be_kept(run_cli, labels, model):
    code, out, _ = run_cli("threshold", model, labels, "--precision", 0.99)
    assert code == 1
    assert "no threshold has precision at least 0.99, 90% sure, on 40 answers" in out
    assert "the best: from similarity" in out
    assert f"stored for P(same) in {model / STORED}" in out
    assert ThresholdCurve.load(model / STORED).answers == 40
    assert ("more answers may be enough" in out) != ("more answers will hardly help" in out)
    code, out, _ = run_cli("threshold", model, labels, "--precision", 0.99, "--json")
    assert (code, json.loads(out)["threshold"]) == (1, None)
    code, _, err = run_cli("threshold", model, labels, "--recall", 0.5, "--f1")
    assert (code, "choose one of --precision, --recall and --f1" in err) == (2, True)
    assert run_cli("threshold", model, labels, "--recall", 0.3)[0] == 0


def test_a_picture_does_not_overwrite_labels(run_cli, tmp_path):
    (tmp_path / "labels.tsv").write_text("1\ta\tb\n")
    code, _, err = run_cli("threshold", "none", "none.tsv", "--curve", tmp_path / "labels.tsv")
    assert (code, "labels.tsv must end in .svg" in err) == (2, True)
    assert (tmp_path / "labels.tsv").read_text() == "1\ta\tb\n"


def test_a_curve_is_stored_with_an_index(run_cli, labels, model, corpus_file, tmp_path):
    RankIndex.build(str(model), corpus_file, tmp_path / "index", device="cpu")
    assert run_cli("threshold", tmp_path / "index", labels, "--f1")[0] == 0
    assert not (model / STORED).exists()
    index = RankIndex.load(tmp_path / "index")
    assert index.search("The cat sees", 1)[0].probability is not None
    with serving(index.model, name="tiny", index=index) as address:
        found = httpx.post(f"{address}/similarity", json={"a": ["The cat"], "b": ["The dog"]}).json()
    expected = float(index.curve.p_same(found["similarity"][0][0]))
    assert found["probability"][0][0] == pytest.approx(expected, abs=1e-4)


def test_duplicates_by_precision(run_cli, labels, model, corpus_file, tmp_path):
    command = ("duplicates", corpus_file, "--model", model, "--show", 0, "--precision")
    code, _, err = run_cli(*command, 0.05)
    assert (code, "--precision needs labels: label pairs for this model" in err) == (2, True)
    run_cli("threshold", model, labels, "--f1")
    curve = ThresholdCurve.load(model / STORED)
    lowest = f"from similarity {curve.thresholds[curve.for_precision(0.05)]:.4f} on"
    code, out, _ = run_cli(*command, 0.05)
    assert lowest in out
    assert "guess" not in out
    code, _, err = run_cli(*command, 0.99)
    assert (code, "no threshold has precision 0.99, 90% sure; the best: from similarity" in err) == (2, True)
    RankIndex.build(str(model), corpus_file, tmp_path / "index", device="cpu")
    assert lowest in run_cli("duplicates", tmp_path / "index", "--show", 0, "--precision", 0.05)[1]
