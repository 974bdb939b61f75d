"""The choice of a similarity: scipy and plain loops as oracles, and data whose truth is known."""

import copy
import json
import shutil
import zlib
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from scored_pairs import write_pairs
from sts import wiki_sentences

from rankencoder import RankEncoder, Reference, evaluate
from rankencoder.errors import InputError
from rankencoder.evaluation.candidates import COSINE, Candidate, candidates_for
from rankencoder.evaluation.choice import ChoiceData, assign_folds, choose, cross_validate, group_pairs
from rankencoder.evaluation.pair_metrics import GRADED
from rankencoder.io.pairs import ScoredPair, read_scored_pairs
from rankencoder.tuning.tuner import tune

RANKS = [Candidate("compact", {"dim": 256}, weight / 10) for weight in range(1, 10)]


def made_up(number, *, better=0.0, candidates=8, seed=0, sentences=None):
    """Scored pairs, and similarities of equal worth but for the last, whose noise is smaller."""
    rng = np.random.default_rng(seed)
    gold = rng.normal(size=number)
    shared = gold + 0.6 * rng.normal(size=number)
    similarities = shared + 0.3 * rng.normal(size=(candidates, number))
    similarities[-1] += better * (gold - similarities[-1])
    sentences = sentences or [(f"{seed} a{i}", f"{seed} b{i}") for i in range(number)]
    pairs = [ScoredPair(a, b, round(score, 1)) for (a, b), score in zip(sentences, gold, strict=True)]
    return pairs, similarities


def of(*sets):
    """The choice on made-up sets."""
    named = {f"set {i}": pairs for i, (pairs, _) in enumerate(sets)}
    similarities = np.concatenate([some for _, some in sets], axis=1)
    return choose(named, [COSINE, *RANKS[: len(similarities) - 1]], similarities)


def judged_sets(*sets):
    sizes = [len(pairs) for pairs, _ in sets]
    pairs = [pair for some, _ in sets for pair in some]
    similarities = np.concatenate([some for _, some in sets], axis=1)
    gold = np.array([pair.score for pair in pairs])
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    of_pairs = numbers, group_pairs(pairs), (GRADED,) * len(sizes), np.ones(len(pairs))
    return ChoiceData(gold, similarities, *of_pairs)


def scores_of(pairs):
    return np.array([pair.score for pair in pairs])


def test_the_table_is_scipys():
    sets = made_up(200), made_up(90, seed=1)
    found = of(*sets)
    for i, result in enumerate(found.results):
        expected = np.mean([spearmanr(scores_of(pairs), some[i]).statistic for pairs, some in sets])
        assert result.score == pytest.approx(expected, abs=1e-12)
        assert result.gain.value == pytest.approx(result.score - found.cosine.score, abs=1e-12)
        assert result.gain.low <= result.gain.value <= result.gain.high
    assert sum(result.folds for result in found.results) == found.folds == 3
    assert (found.pairs, found.groups) == ({"set 0": 200, "set 1": 90}, 290)
    assert json.loads(json.dumps(found.to_dict()))["sentence"] == found.sentence()


def test_cross_validation_is_the_plain_loop():
    judged = judged_sets(made_up(200, better=0.1), made_up(97, better=0.1, seed=1))
    folds = assign_folds(judged)
    chosen, gain = cross_validate(judged, folds)
    gains = []
    for i in range(3):
        parts = [judged.sets == number for number in (0, 1)]
        others = [part & (folds != i) for part in parts]
        scores = [
            [spearmanr(judged.gold[rows], s[rows]).statistic for s in judged.similarities] for rows in others
        ]
        assert chosen[i] == np.mean(scores, axis=0).argmax()
        of_sets = []
        for own in (part & (folds == i) for part in parts):
            ours, cosines = (judged.similarities[c][own] for c in (chosen[i], 0))
            of_sets += [np.diff([spearmanr(judged.gold[own], s).statistic for s in (cosines, ours)])]
        gains.append(np.mean(of_sets))
    assert gain.value == pytest.approx(np.average(gains, weights=np.bincount(folds)), abs=1e-12)


def test_what_is_truly_better_is_chosen():
    choice = of(made_up(400, better=0.4))
    assert choice.chosen == choice.best
    assert (choice.chosen.form, choice.chosen.rank_weight) == ("compact", 0.7)
    assert choice.gain.low > 0
    assert choice.best.folds == choice.folds == 8
    assert "Use ranks, weight 0.7 in place of plain cosine" in choice.sentence()
    assert "on 400 scored pairs" in choice.sentence()


def test_luck_is_not_taken_for_a_gain():
    """Candidates that are all of equal worth: plain cosine stays, as often as the interval says."""
    choices = [of(made_up(120, candidates=10, seed=seed)) for seed in range(50)]
    assert sum(choice.chosen.is_cosine for choice in choices) >= 48
    choice = choices[0]
    assert choice.chosen.is_cosine
    assert "Keep plain cosine: " in choice.sentence()
    assert "its gain may be chance" in choice.sentence()


def test_where_cosine_is_best_the_words_say_so():
    pairs, similarities = made_up(100)
    similarities[0] = scores_of(pairs)
    choice = of((pairs, similarities))
    assert choice.chosen.is_cosine
    assert choice.gain == (0, 0, 0)
    assert "Spearman 100.0 on 100 scored pairs, the best of" in choice.sentence()


def test_no_sentence_is_in_two_folds():
    """Sixty clusters of five paraphrases, all pairs of each: no cluster is parted."""
    pairs = [
        ScoredPair(f"{cluster}-{a}", f"{cluster}-{b}", 0.0)
        for cluster in range(60)
        for a in range(5)
        for b in range(a)
    ]
    judged = judged_sets((pairs, np.zeros((1, len(pairs)))))
    folds = assign_folds(judged)
    assert judged.groups.max() + 1 == 60
    at = {}
    for pair, fold in zip(pairs, folds, strict=True):
        assert {at.setdefault(text, fold) for text in pair[:2]} == {fold}
    assert np.ptp(np.bincount(folds)) <= 10  # one cluster more or less


def test_folds_are_of_one_size_beside_a_large_query():
    pairs = [ScoredPair("query", f"d{i}", 0.0) for i in range(140)]
    pairs += [ScoredPair(f"a{i}", f"b{i}", 0.0) for i in range(160)]
    folds = assign_folds(judged_sets((pairs, np.zeros((1, len(pairs))))))
    large, *others = sorted(np.bincount(folds), reverse=True)
    assert large == 140
    assert max(others) - min(others) <= 1


@pytest.mark.parametrize("texts", [10, 80, 1000])
def test_what_shares_its_more_frequent_sentence_is_in_one_fold(texts):
    edges = np.random.default_rng(texts).integers(texts, size=(300, 2)).astype(str)
    pairs = [ScoredPair(a, b, 0.0) for a, b in edges]
    judged = judged_sets(*((some, np.zeros((1, len(some)))) for some in (pairs[:200], pairs[200:])))
    folds = assign_folds(judged)
    seen, at = Counter(text for pair in pairs for text in {pair.a, pair.b}), {}
    for pair, fold in zip(pairs, folds, strict=True):
        if seen[pair.a] != seen[pair.b]:
            assert at.setdefault(max(pair[:2], key=seen.get), fold) == fold
    assert set(folds) == {0, 1, 2}
    if texts > 80:
        shares = [
            np.bincount(folds[judged.sets == number]) / (judged.sets == number).sum() for number in (0, 1)
        ]
        assert np.abs(np.array(shares) - 1 / 3).max() < 0.05


def queries(number, documents, *, shared):
    return [(f"q{q}", f"d{d}" if shared else f"d{q}-{d}") for q in range(number) for d in range(documents)]


@pytest.mark.parametrize(
    ("sentences", "groups"), [(queries(12, 10, shared=False), 12), (queries(8, 15, shared=True), 8)]
)
def test_queries_stay_whole(sentences, groups):
    choice = of(made_up(120, sentences=sentences))
    assert choice.groups == groups
    assert f"(in {groups} groups that share a sentence)" in choice.sentence()


def test_repeated_pairs_prove_nothing_more():
    """Each pair five times over, either way round: the same correlations, and the same interval."""
    pairs, similarities = made_up(50, better=0.2)
    turned = [ScoredPair(pair.b, pair.a, pair.score) for pair in pairs]
    five = [*pairs, *turned, *pairs, *turned, *pairs], np.tile(similarities, 5)
    for one, other in zip(of((pairs, similarities)).results, of(five).results, strict=True):
        assert other.gain == pytest.approx(one.gain, abs=1e-12)


def test_undefined_correlations_do_no_harm():
    pairs, similarities = made_up(60)
    similarities[3] = 0.5
    choice = of((pairs, similarities))
    assert choice.results[3].score == 0
    json.loads(json.dumps(choice.to_dict(), allow_nan=False))
    rare = [pair._replace(score=float(i == 0)) for i, pair in enumerate(pairs)]
    assert of((rare, similarities)).chosen.is_cosine
    halves = judged_sets(([pair._replace(score=i % 2) for i, pair in enumerate(pairs)], similarities))
    assert cross_validate(halves, np.arange(60) % 2)[1] == (0, 0, 0)  # all scores of a fold are equal


def words(texts):
    """An encoder: each word adds its own fixed random vector."""

    def vector(word):
        return np.random.default_rng(zlib.crc32(word.encode())).normal(size=16)

    return np.array([np.sum([vector(word) for word in text.split()], axis=0) for text in texts])


def leaning(texts):
    """The same, but two directions that mean nothing drown the others."""
    rows = words(texts)
    rows[:, 0] = [8 * np.sin(len(text) * 2.3) for text in texts]
    rows[:, 1] = [8 * np.sin(sum(map(ord, text))) for text in texts]
    rows[:, 2] += 12
    return rows


@pytest.fixture(scope="module")
def judged(sentences):
    """Pairs scored by the directions that mean something."""
    rng = np.random.default_rng(0)
    a, b = (rng.permutation(sentences)[:300].tolist() for _ in range(2))
    left, right = (words(texts)[:, 2:] for texts in (a, b))
    scores = (left * right).sum(axis=1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
    return [ScoredPair(*row) for row in zip(a, b, scores.tolist(), strict=True)]


@pytest.fixture(scope="module")
def tuned(judged, sentences):
    return tune(leaning, judged, corpus=sentences, progress=False)


def power_oracle(reference, a, b, *, power, center):
    """A power of the covariance by numpy's eigenvectors."""
    values, vectors = np.linalg.eigh(np.cov(reference.T.astype(np.float64)))
    mean = reference.mean(axis=0, dtype=np.float64) if center else 0
    a, b = ((x - mean) @ (vectors * values**power @ vectors.T) for x in (a, b))
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_a_drowned_encoder_is_whitened(tuned, judged, tmp_path):
    choice = tuned.choice
    assert choice.chosen.form == "linear"
    assert choice.chosen.settings["power"] < 0
    assert choice.gain.low > 0.1
    tuned.save(tmp_path / "tuned")
    record = json.loads((tmp_path / "tuned" / "tuning.json").read_text())
    assert record["choice"]["chosen"]["name"] == choice.chosen.name
    loaded = RankEncoder.load(tmp_path / "tuned", leaning)
    a, b = (list(texts) for texts in list(zip(*judged, strict=True))[:2])
    left, right = (loaded.encoder(texts).numpy() for texts in (a, b))
    weight = choice.chosen.rank_weight
    powered = power_oracle(loaded.reference.vectors, left, right, **choice.chosen.settings)
    expected = weight * powered + (1 - weight) * (left * right).sum(axis=1)
    assert loaded.similarity_pairwise(a, b) == pytest.approx(expected, abs=1e-4)
    gold = [pair.score for pair in judged]
    assert choice.best.score == pytest.approx(spearmanr(gold, expected).statistic, abs=1e-4)


def test_every_candidate_is_what_the_model_does(tuned, judged):
    """The table's figures against models set up by hand."""
    a, b = (list(texts) for texts in list(zip(*judged, strict=True))[:2])
    gold = [pair.score for pair in judged]
    base = tuned.model
    wanted = {"plain cosine", "ranks, weight 0.2", "ranks alone", "power −0.125", "power +0.5, weight 0.5"}
    seen = set()
    for result in tuned.choice.results:
        if result.name in wanted:
            seen.add(result.name)
            by_hand = base.with_form(result.form or "exact", **result.settings)
            by_hand.rank_weight = result.rank_weight
            expected = spearmanr(gold, by_hand.similarity_pairwise(a, b)).statistic
            assert result.score == pytest.approx(expected, abs=1e-4)
    assert seen == wanted


def test_the_given_model_stays_as_it_is_and_takes_part(tiny_model, judged):
    model = copy.copy(tiny_model)
    model.rank_weight = 0.123
    chosen = tune(model, {"mine": judged}, progress=False)
    assert (model.rank_weight, model.form.name) == (0.123, "exact")
    assert "ranks, weight 0.123" in [result.name for result in chosen.choice.results]
    assert list(chosen.choice.pairs) == ["mine"]
    linear = tiny_model.with_form("linear", power=0.3)
    names = [(candidate.form, candidate.rank_weight) for candidate in candidates_for(linear.form, 0.3)]
    assert ("compact", 0.5) in names
    assert names[-1] == ("linear", 0.3)
    assert names.count((None, 0.0)) == 1


def test_sentences_are_encoded_once(judged, sentences):
    seen = []

    def counting(texts):
        seen.extend(texts)
        return words(texts)

    model = RankEncoder(counting, sentences, progress=False)
    seen.clear()
    tune(model, {"all": judged, "some": judged[:40]}, progress=False)
    assert len(seen) == len(set(seen))


def test_without_pairs_there_is_advice_and_no_choice(tiny_model):
    found = tune(tiny_model)
    assert found.choice is None
    assert found.model is tiny_model
    assert (
        str(found)
        == "Keep plain cosine: too few sentences have 8 words to compare similarities without labels."
    )


def test_for_an_evaluation(tiny_model, judged, pairs_file, tmp_path):
    few = write_pairs(tmp_path / "few.tsv", judged[:5])
    choices = [
        evaluate(tiny_model, dev=file, tasks=["choice"], cache=False).results[0]["choice"][""]
        for file in (pairs_file, few)
    ]
    expected = tune(tiny_model, {"pairs": judged}).choice
    assert choices[0]["chosen"] == expected.chosen.to_dict()
    assert choices[0]["gain"]["value"] == pytest.approx(expected.gain.value, abs=1e-9)
    assert "No similarity was chosen: few: 5 scored pairs are too few" in choices[1]["sentence"]


def test_what_cannot_be_tuned_is_said(judged, tiny_model, tiny_folder, tmp_path):
    for arguments, message in (
        ((tiny_model, judged[:29]), "29 scored pairs are too few to choose a similarity: use at least 30"),
        ((tiny_model, [pair._replace(score=1) for pair in judged]), "all scores are 1"),
        ((tiny_model, {"all": judged, "some": judged[:3]}), "some: 3 scored"),
        ((tiny_model, [("a", "b", "c")] * 40), "pairs: the score 'c' is not a finite number"),
        ((tiny_model, [("a", "", 1.0)] * 40), "empty"),
        ((tiny_model, [("a", "b", float("nan"))] * 40), "finite"),
        ((tiny_model, [("a", f"b{i}", i) for i in range(40)]), "all pairs share one of 1;"),
        ((tiny_model, tmp_path / "none.tsv"), "no such file"),
        ((words, judged), "words is a plain encoder: set `corpus`"),
        ((tiny_folder, judged), "is a plain encoder: set `corpus`"),
    ):
        with pytest.raises(InputError, match=message):
            tune(*arguments)
    with pytest.raises(InputError, match="its own reference corpus"):
        tune(tiny_model, judged, corpus=["a", "b"])


@pytest.fixture(scope="module")
def pairs_file(judged, tmp_path_factory):
    path = tmp_path_factory.mktemp("dev") / "pairs.tsv"
    path.write_text("".join(f"{pair.score}\t{pair.a}\t{pair.b}\n" for pair in judged))
    return path


def test_command(run_cli, tiny_saved, pairs_file, tmp_path):
    output = tmp_path / "out"
    code, out, err = run_cli("tune", tiny_saved, "--dev", pairs_file)
    assert code == 0, err
    assert "plain cosine" in out
    assert "ranks alone" in out
    assert "Add -o DIR to write" in out
    code, out, err = run_cli("tune", tiny_saved, "--dev", pairs_file, "-o", output, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["output"] == str(output)
    loaded = RankEncoder.load(output)
    assert loaded.rank_weight == found["choice"]["chosen"]["rank_weight"]
    assert json.loads((output / "tuning.json").read_text())["choice"] == found["choice"]
    assert run_cli("tune", tiny_saved, "--dev", pairs_file, "-o", output)[0] == 2
    code, out, _ = run_cli("tune", output, "--dev", pairs_file, "-o", output, "--overwrite")
    assert code == 0
    assert f"Written to {output}" in out
    assert RankEncoder.load(output).rank_weight == loaded.rank_weight


def test_command_without_pairs_and_with_a_corpus(run_cli, tiny_folder, corpus_file):
    code, out, _ = run_cli("tune", tiny_folder, "--corpus", corpus_file, "--size", 1000, "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["choice"], found["reference_size"], found["output"]) == (None, 1000, None)
    assert "Keep plain cosine" in found["sentence"]


def test_command_errors_are_one_line(run_cli, tiny_folder, tiny_saved, pairs_file, corpus_file, tmp_path):
    few = tmp_path / "few.tsv"
    few.write_text("1\ta\tb\n2\tc\td\n")
    run = tmp_path / "run"
    run.mkdir()
    (run / "rankencoder-run.json").write_text("{}")
    dev = ("--dev", pairs_file)
    for arguments, message in (
        ((tiny_saved, "--dev", few), "too few to choose a similarity"),
        ((tiny_saved, "-o", tmp_path / "x"), "omit -o"),
        ((tiny_saved, *dev, "--corpus", corpus_file), "its own reference corpus"),
        ((tiny_folder, *dev), "is a plain encoder: set --corpus"),
        ((tmp_path / "nowhere", *dev), "no such folder"),
        ((run, *dev), "has not finished an encoder yet"),
        ((tiny_saved, *dev, "-o", run, "--overwrite"), "holds a training"),
        ((tiny_saved, *dev, "-o", tmp_path), "already exists"),
    ):
        code, _, err = run_cli("tune", *arguments)
        assert (code, err.count("\n")) == (2, 1), err
        assert message in err
    shutil.copytree(tiny_saved, run / "rankencoder")
    code, out, _ = run_cli("tune", run)
    assert code == 0
    assert "Keep plain cosine" in out


def test_real_encoder_and_real_pairs(minilm, shared):
    """all-MiniLM-L6-v2 on a part of STS-B dev: nothing is to be had beyond its cosine."""
    pairs = read_scored_pairs(shared / "data/sts-raw/STSB/dev.tsv")[::20]
    corpus = [text for text in wiki_sentences(20_000) if len(text) < 60 and len(text.split()) >= 8]
    reference = Reference.build(minilm, corpus, size=1000)
    model = RankEncoder(minilm, reference, progress=False)
    found = tune(model, pairs, progress=False)
    a, b = (list(texts) for texts in list(zip(*pairs, strict=True))[:2])
    cosines = torch.nn.functional.cosine_similarity(
        *(torch.from_numpy(minilm.model.encode(texts)) for texts in (a, b))
    )
    expected = spearmanr([pair.score for pair in pairs], cosines).statistic
    assert found.choice.cosine.score == pytest.approx(expected, abs=1e-4)
    alone = next(result for result in found.choice.results if result.name == "ranks alone")
    assert alone.gain.value < 0
    assert found.choice.chosen.is_cosine
    assert found.model.similarity_pairwise(a, b) == pytest.approx(cosines.numpy(), abs=1e-5)
    advice = tune(model)
    assert advice.halves.power is None  # a supervised encoder: nothing is clearly better than cosine
    assert "no evidence for another similarity" in str(advice)
