"""`evaluate`, end to end on tiny encoders, with scipy, numpy and scikit-learn as oracles."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from pair_groups import group_rows, neighbor_overlap, similar_pairs
from paper_sections import measure_sections, measure_transfer
from scipy.stats import spearmanr
from scored_pairs import make_pairs, write_pairs, write_sts
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from senteval_scores import score_transfer
from senteval_tasks import read_transfer_task

from rankencoder import RankEncoder, evaluate, rank_similarity
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.evaluation.evaluator import SECTIONS
from rankencoder.evaluation.measurement import aggregate
from rankencoder.evaluation.results import read_results, rows
from rankencoder.evaluation.sts_data import SEVEN, PairSet, read_pair_set, read_sts
from rankencoder.evaluation.subjects import open_subjects
from rankencoder.evaluation.vector_cache import CachedEncoder
from rankencoder.io.pairs import ScoredPair
from rankencoder.report.encoder_views import views


@pytest.fixture(scope="module")
def pairs(sentences):
    return make_pairs(sentences, 150)


@pytest.fixture(scope="module")
def dev(pairs, tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("dev") / "mine.tsv", pairs)


@pytest.fixture(scope="module")
def data(sentences, tmp_path_factory):
    return write_sts(tmp_path_factory.mktemp("data") / "sts", sentences)


@pytest.fixture(scope="module")
def evaluation(tiny_saved, data, dev, tmp_path_factory):
    output = tmp_path_factory.mktemp("results")
    cache = tmp_path_factory.mktemp("cache")
    return evaluate(tiny_saved, data=data, dev=dev, output=output, cache=cache, progress=False)


@pytest.fixture(scope="module")
def sections(tiny_saved, data, dev):
    """What only the paper's tables need."""
    sets = [*read_sts(data), read_pair_set(dev)]
    return measure_sections(open_subjects(tiny_saved), sets, ("neighbors", "curves"))


def systems(evaluation):
    """The scores of one model by system."""
    found = evaluation.scores()
    assert {name.split(", ")[0].split("/")[-1] for name in found} == {"model"}
    return {name.split(", ")[1]: row for name, row in found.items()}


def test_scores_are_those_of_sentence_transformers(evaluation, tiny_saved, pairs):
    model = SentenceTransformer(str(tiny_saved / "encoder"), device="cpu")
    texts = [p.a for p in pairs], [p.b for p in pairs]
    theirs = EmbeddingSimilarityEvaluator(*texts, [p.score for p in pairs], main_similarity="cosine")(model)
    found = systems(evaluation)
    assert found["cosine"]["mine"] == pytest.approx(100 * theirs["spearman_cosine"], abs=0.01)


def test_ranks_and_blend_are_those_of_the_model(evaluation, tiny_saved, pairs):
    model = RankEncoder.load(tiny_saved)
    a, b = [p.a for p in pairs], [p.b for p in pairs]
    gold = [p.score for p in pairs]
    found = systems(evaluation)
    blend = spearmanr(gold, model.similarity_pairwise(a, b)).statistic
    assert found["blend 0.3"]["mine"] == pytest.approx(100 * blend, abs=0.01)
    model.rank_weight = 1.0
    ranks = spearmanr(gold, model.similarity_pairwise(a, b)).statistic
    assert found["ranks"]["mine"] == pytest.approx(100 * ranks, abs=0.01)


def test_a_set_of_sub_sets_is_scored_over_all_pairs():
    rng = np.random.default_rng(0)
    subsets = {
        name: [ScoredPair("a", "b", float(score)) for score in rng.normal(shift, 1, size)]
        for name, shift, size in (("x", 0, 30), ("y", 5, 60), ("z", 9, 10))
    }
    pair_set = PairSet("STS12", subsets, "memory", (0, 5))
    gold = np.array([p.score for p in pair_set.pairs])
    similarities = gold + rng.normal(scale=2, size=100)
    found = aggregate(pair_set, similarities)
    parts = [
        spearmanr(gold[s], similarities[s]).statistic for s in (slice(30), slice(30, 90), slice(90, 100))
    ]
    assert found["all"] == pytest.approx(100 * spearmanr(gold, similarities).statistic)
    assert list(found["subsets"].values()) == pytest.approx([100 * part for part in parts])


def test_average_is_of_the_seven_rounded(evaluation):
    row = systems(evaluation)["cosine"]
    assert row["AVG"] == pytest.approx(np.mean([round(row[name], 2) for name in SEVEN]))


def test_everything_is_stored(evaluation):
    (path,) = evaluation.files
    stored = json.loads(path.read_text())
    assert stored == json.loads(json.dumps(evaluation.results[0]))
    for section in SECTIONS:
        assert stored[section], section
    assert stored["model"]["subjects"][0]["reference"]["size"] == 1200
    assert set(stored["data"]) == {*SEVEN, "STS-B dev", "SICK-R dev", "mine"}
    assert {"rankencoder", "torch", "numpy"} <= set(stored["versions"])
    assert len(stored["data"]["STS12"]["fingerprint"]) == 64
    assert read_results([path.parent]) == [stored]


def test_curves_meet_the_scores(evaluation, sections):
    """λ = 0 and power 0 are the cosine, λ = 1 the ranks; the whole reference corpus is the last size."""
    result = evaluation.results[0]
    curves = sections["curves"][""]
    scores = {kind: result["sts"][kind]["scores"] for kind in ("cosine", "ranks")}
    for name in (*SEVEN, "mine"):
        weights = curves["rank-weight"]["scores"][name]
        assert weights[0] == pytest.approx(scores["cosine"][name]["all"], abs=0.01)
        assert weights[-1] == pytest.approx(scores["ranks"][name]["all"], abs=0.01)
        zero = curves["power"]["x"].index(0)
        assert curves["power"]["plain"][name][zero] == pytest.approx(scores["cosine"][name]["all"], abs=0.01)
    sizes = curves["reference-size"]
    assert sizes["x"] == [100, 300, 1000, 1200]
    assert sizes["set"] == "STS-B dev"
    assert len(sizes["runs"][0]) == 3
    assert len(sizes["runs"][-1]) == 1


def test_powers_are_those_of_numpy(sections, tiny_saved, pairs):
    model = RankEncoder.load(tiny_saved)
    reference = model.reference.vectors.astype(np.float64)
    mean = reference.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(reference.T, bias=True))
    power = (vectors * np.where(values > 1e-7 * values[-1], values, np.inf) ** -0.25) @ vectors.T
    a, b = (model.encoder([p[i] for p in pairs]).numpy().astype(np.float64) - mean for i in (0, 1))
    a, b = a @ power, b @ power
    cosines = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    curve = sections["curves"][""]["power"]
    found = curve["centered"]["mine"][curve["x"].index(-0.25)]
    assert found == pytest.approx(100 * spearmanr([p.score for p in pairs], cosines).statistic, abs=0.05)


def test_groups_of_similar_pairs():
    gold = [0, 1.6, 1.65, 3.3, 3.35, 5]
    pair_set = PairSet("STS-B", {"all": [ScoredPair("a", "b", g) for g in gold]}, "memory", (0, 5))
    assert [rows.tolist() for rows in group_rows(pair_set)] == [
        [True, True, False, False, False, False],
        [False, False, True, True, False, False],
        [False, False, False, False, True, True],
    ]
    rng = np.random.default_rng(0)
    gold = rng.uniform(0, 5, 300)
    pair_set = PairSet("STS-B", {"all": [ScoredPair("a", "b", g) for g in gold]}, "memory", (0, 5))
    similarities = gold + rng.normal(size=300)
    found = similar_pairs(pair_set, {"cosine": similarities})
    similar = gold / 5 >= 0.67
    assert found["similar"]["pairs"] == similar.sum()
    expected = spearmanr(gold[similar], similarities[similar]).statistic
    assert found["similar"]["scores"]["cosine"] == pytest.approx(100 * expected)
    assert sum(group["pairs"] for group in found.values()) == 300


def test_shared_neighbors_by_explain(tiny_saved, pairs):
    model = RankEncoder.load(tiny_saved)
    subject = open_subjects(model).subjects[0]
    some = PairSet("mine", {"all": pairs[:20]}, "memory", (0, 5))
    expected = [len(model.explain(p.a, p.b, k=100).shared) for p in pairs[:20]]
    assert neighbor_overlap(subject, some).tolist() == expected


def test_neighbor_bins_are_those_of_numpy(evaluation, sections):
    found = sections["neighbors"][""]
    name = found["set"]
    cosine = np.array(evaluation.results[0]["sts"]["cosine"]["similarities"][name])
    counts, edges = np.histogram(cosine, bins=10)
    assert [b["pairs"] for b in found["bins"]] == counts.tolist()
    assert [b["from"] for b in found["bins"]] == pytest.approx(edges[:-1])


def test_space_of_the_exact_ranks(tiny_model, pairs):
    """The cosine of two points of the rank space is Spearman's correlation."""
    from vector_spaces import spaces

    subject = open_subjects(tiny_model).subjects[0]
    vectors = subject.encoder([p.a for p in pairs[:10]])
    found = spaces(subject, vectors)["ranks"]
    expected = rank_similarity((vectors @ tiny_model.form.reference.T).numpy())
    assert (found @ found.T).numpy() == pytest.approx(expected, abs=1e-4)


class Counting:
    """A callable encoder that counts its sentences."""

    def __init__(self, function):
        self.function, self.seen = function, 0

    def __call__(self, texts):
        self.seen += len(texts)
        return self.function(texts)


def test_the_parts_of_the_cost_add_up(tiny_saved, tiny_folder, dev, tmp_path):
    from safetensors.numpy import load_file

    def cost_of(model):
        found = evaluate(model, dev=dev, tasks=["cost"], cache=False, progress=False)
        return found.results[0]["cost"][""]

    cost, reference = cost_of(tiny_saved), load_file(tiny_saved / "reference/reference.safetensors")
    assert cost["total_ms"] == pytest.approx(cost["model_ms"] + cost["form_ms"], abs=1e-9)
    assert cost["reference_bytes"] == reference["vectors"].nbytes
    form = load_file(tiny_saved / "form.safetensors")
    assert cost["form_bytes"] == sum(array.nbytes for array in form.values())
    for weight in (0.0, 0.1, 1.0):
        model = RankEncoder.load(tiny_saved)
        model.rank_weight = weight
        model.save(tmp_path / f"{weight}")
        assert cost_of(tmp_path / f"{weight}")["vector_bytes"] == model.encode("A cat").nbytes
    plain = cost_of(tiny_folder)
    assert plain["total_ms"] == plain["model_ms"] > 0
    assert "form_ms" not in plain


def test_nothing_is_encoded_twice(callable_encoder, pairs, dev, tmp_path):
    encoder = Counting(callable_encoder)
    first = evaluate(encoder, dev=dev, tasks=["sts"], cache=tmp_path, progress=False)
    seen = encoder.seen
    assert seen == 4 + len({text for p in pairs for text in p[:2]})  # the probe, and each sentence once
    again = evaluate(encoder, dev=dev, tasks=["sts"], cache=tmp_path, progress=False)
    assert encoder.seen == seen + 4
    assert again.scores() == first.scores()
    (file,) = tmp_path.rglob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-10])
    assert (
        evaluate(encoder, dev=dev, tasks=["sts"], cache=tmp_path, progress=False).scores() == first.scores()
    )
    assert encoder.seen > seen + 8  # a damaged file is made again
    encoder.function = lambda texts: -np.abs(callable_encoder(texts))
    changed = evaluate(encoder, dev=dev, tasks=["sts"], cache=tmp_path, progress=False)
    assert changed.scores() != first.scores()


def test_fingerprints_see_weights_and_settings(tiny_folder):
    def load(**changes):
        model = SentenceTransformer(str(tiny_folder), device="cpu", **changes)
        return Encoder(model)

    first = load().fingerprint()
    used = load()
    used(["a cat", "a much longer sentence about a dog and a house"])
    assert load().fingerprint() == used.fingerprint() == first
    shorter = load()
    shorter.model.max_seq_length = 8
    assert shorter.fingerprint() != first
    prompted = load(prompts={"query": "about: "}, default_prompt_name="query")
    assert prompted.fingerprint() != first
    nudged = load()
    with torch.no_grad():
        next(nudged.model.parameters())[0, 0] += 1e-3
    assert nudged.fingerprint() != first


def test_cached_vectors_are_the_encoders(tiny_folder, sentences, tmp_path):
    plain = Encoder(str(tiny_folder), device="cpu")
    texts = [*sentences[:50], *sentences[20:30]]
    for _ in range(2):
        cached = CachedEncoder(plain, tmp_path)
        assert torch.allclose(cached.raw(texts), plain.raw(texts), atol=1e-5)
        assert torch.allclose(cached(texts), plain(texts), atol=1e-6)
    assert cached.raw([]).shape[0] == 0


def test_stored_vectors_that_are_damaged_are_made_again(tmp_path, sentences, callable_encoder):
    plain, texts = Encoder(callable_encoder), sentences[:50]
    CachedEncoder(plain, tmp_path).raw(texts)
    (file,) = tmp_path.rglob("*.safetensors")
    data = bytearray(file.read_bytes())
    for place in (-1, -2000, len(data) // 2):  # whatever of it: vectors, digest
        data[place] ^= 1
        file.write_bytes(data)
        assert torch.equal(CachedEncoder(plain, tmp_path).raw(texts), plain.raw(texts))
        assert file.read_bytes() != bytes(data)
        data = bytearray(file.read_bytes())


def test_one_added_sentence_is_all_that_is_encoded(tmp_path, sentences, callable_encoder):
    encoder = Counting(callable_encoder)
    CachedEncoder(Encoder(encoder), tmp_path).raw(sentences[:50])
    encoder.seen = 0
    CachedEncoder(Encoder(encoder), tmp_path).raw(sentences[:51])
    assert encoder.seen == 4 + 1  # the probe, and the added one
    again = CachedEncoder(Encoder(encoder), tmp_path)
    encoder.seen = 0
    assert torch.equal(again.raw(sentences[:51]), Encoder(callable_encoder).raw(sentences[:51]))
    assert encoder.seen == 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny_folder, tiny_saved):
    """Three finished trainings as they lie on disk, with seeds 1, 2, 3, and one of another configuration."""
    import shutil

    root = tmp_path_factory.mktemp("runs")
    for number, method in ((1, "simcse"), (2, "simcse"), (3, "simcse"), (4, "promptbert")):
        folder = root / f"run-{number}"
        shutil.copytree(tiny_saved, folder / "rankencoder")
        model = SentenceTransformer(str(tiny_folder), device="cpu")
        torch.manual_seed(number)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(str(folder / "base"))
        config = {"seed": number, "output": str(folder), "method": method}
        (folder / "rankencoder-run.json").write_text(json.dumps({"finished": True, "config": config}))
    return [root / f"run-{number}" for number in (1, 2, 3, 4)]


def test_runs_that_differ_in_seeds_are_one_row(runs, dev):
    evaluation = evaluate(runs, dev=dev, tasks=["sts"], cache=False, progress=False)
    found = {(row.label, row.system): row for row in evaluation.rows()}
    assert set(found) == {
        (label, f"{role} {kind}")
        for label in ("run (3 runs)", "run-4")
        for role in ("E1", "E2")
        for kind in ("cosine", "ranks", "blend 0.3")
    }
    row = found["run (3 runs)", "E1 cosine"]
    scores = [result["sts"]["E1 cosine"]["scores"]["mine"]["all"] for result in evaluation.results[:3]]
    assert row.values["mine"] == pytest.approx(scores)
    assert row.seeds == (1, 2, 3)
    assert row.mean("mine") == pytest.approx(np.mean(scores))
    assert row.std("mine") == pytest.approx(np.std(scores, ddof=1))
    gain = found["run (3 runs)", "E1 ranks"].gain_over(row, ["mine"])
    expected = found["run (3 runs)", "E1 ranks"].mean("mine") - row.mean("mine")
    assert gain.value == pytest.approx(expected, abs=0.01)


def test_models_of_one_name_are_told_apart(evaluation):
    first = evaluation.results[0]
    second = json.loads(json.dumps(first))
    second["model"].update(fingerprint="other", group="other", path="elsewhere/model")
    labels = {row.label for row in rows([first, second])}
    assert labels == {first["model"]["path"], "elsewhere/model"}
    assert len(rows([first, first])) == len(rows([first]))  # the same model twice is no second run


def test_unfinished_runs_are_refused(runs, dev, tmp_path):
    (tmp_path / "rankencoder-run.json").write_text('{"finished": false}')
    with pytest.raises(InputError, match="not finished an encoder yet: resume it first"):
        evaluate(tmp_path, dev=dev)


def test_sections_are_added_to_earlier_results(tiny_saved, dev, tmp_path):
    def run(*tasks):
        return evaluate(tiny_saved, dev=dev, tasks=tasks, output=tmp_path, cache=False, progress=False)

    run("cost")
    (path,) = run("choice").files
    stored = json.loads(path.read_text())
    assert stored["cost"]
    assert stored["choice"]
    assert len(rows([stored])) == 3


def test_sets_are_added_to_earlier_results(tiny_saved, data, tmp_path):
    def run(*tasks):
        given = {"data": data, "output": tmp_path, "cache": False, "progress": False}
        evaluation = evaluate(tiny_saved, tasks=tasks, **given)
        assert set(systems(evaluation)["cosine"]) == set(tasks)  # what was just measured, and no more
        return json.loads(evaluation.files[0].read_text())

    assert run(*SEVEN[:6])["sts"]["cosine"]["AVG"]["all"] is None
    stored = run("SICK-R")
    scores = stored["sts"]["cosine"]["scores"]
    assert list(scores) == list(stored["data"]) == list(SEVEN)
    expected = np.mean([round(scores[name]["all"], 2) for name in SEVEN])
    assert stored["sts"]["cosine"]["AVG"]["all"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\ta\tb\n1\tc\td\n", "all scores are 1"),
        ("1\ta\tb\nx\tc\td\n", "line 2: the score 'x' is not a finite number"),
        ("1\ta\tb\n2\tc\n", "line 2: expected 3 columns, got 2"),
    ],
)
def test_bad_pairs(run_cli, tiny_saved, tmp_path, content, message):
    path = tmp_path / "dev.tsv"
    path.write_text(content)
    code, _, err = run_cli("evaluate", tiny_saved, "--dev", path, "-o", tmp_path / "out")
    assert code == 2
    assert message in err
    assert "dev.tsv" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_own_sets_never_take_the_place_of_others(tiny_saved, data, pairs, tmp_path):
    def run(*names, **more):
        files = [write_pairs(tmp_path / name, pairs[: 100 + i]) for i, name in enumerate(names)]
        given = {"tasks": ["sts"], "cache": False, "progress": False, **more}
        return files, systems(evaluate(tiny_saved, dev=files, **given))["cosine"]

    (tmp_path / "other").mkdir()
    _, plain = run(data=data)
    (sts, avg), found = run("STS12.tsv", "AVG.tsv", data=data)
    assert {name: found[name] for name in plain} == plain
    assert set(found) == {*plain, str(sts), str(avg)}
    files, found = run("mine.tsv", "other/mine.tsv", data=data)
    assert set(found) == {*plain, *map(str, files)}
    with pytest.raises(InputError, match="is given twice"):
        run("mine.tsv", "mine.tsv")


def test_a_section_is_replaced_as_a_whole(tiny_saved, dev, pairs, tmp_path):
    def run(file):
        given = {"tasks": ["choice"], "output": tmp_path / "out", "cache": False, "progress": False}
        return json.loads(evaluate(tiny_saved, dev=file, **given).files[0].read_text())

    run(dev)
    stored = run(write_pairs(tmp_path / "few.tsv", pairs[:10]))
    assert set(stored["choice"][""]) == {"sentence"}  # too few pairs, and nothing of the earlier choice
    assert set(stored["data"]) == {"mine", "few"}
    assert set(stored["made"]) == {"sts", "choice"}


def test_a_damaged_result_is_set_aside(tiny_saved, dev, tmp_path):
    def run():
        given = {"tasks": ["sts"], "output": tmp_path, "cache": False, "progress": False}
        return evaluate(tiny_saved, dev=dev, **given).files[0]

    path = run()
    path.write_text(path.read_text()[:500])
    assert run() == path
    assert json.loads(path.read_text())["sts"]
    assert path.with_suffix(".damaged").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: r.pop("model"),
        lambda r: r.pop("data"),
        lambda r: r["model"].update(fingerprint=5),
        lambda r: r["data"]["mine"].pop("notes"),
        lambda r: r.update(sts="nothing"),
        lambda r: r["sts"]["cosine"]["similarities"]["mine"].pop(),
    ],
)
def test_damaged_results_are_named(run_cli, evaluation, tmp_path, damage):
    result = json.loads(evaluation.files[0].read_text())
    damage(result)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(result))
    code, _, err = run_cli("report", path, "-o", tmp_path / "report.html")
    assert code == 2
    assert "broken.json: a result is damaged" in err


def test_other_files_in_a_folder_of_results_are_passed_over(evaluation, tmp_path):
    path = tmp_path / evaluation.files[0].name
    path.write_text(evaluation.files[0].read_text())
    (tmp_path / "package.json").write_text("{}")
    assert len(read_results([tmp_path])) == 1
    with pytest.raises(InputError, match="is not a result of an evaluation"):
        read_results([tmp_path / "package.json"])


def test_runs_with_other_data_are_not_pooled(evaluation):
    first = evaluation.results[0]
    second = json.loads(json.dumps(first))
    second["model"].update(fingerprint="other")
    assert len(rows([first, second])) == 3
    second["data"]["mine"]["fingerprint"] = "other"
    second["data"]["mine"]["gold"].reverse()
    second["model"].update(path="elsewhere/model")
    assert len(rows([first, second])) == 6
    shown = views([first, second])  # of the report
    assert [view.label for view in shown] == [first["model"]["path"], "elsewhere/model"]
    assert all(view.rows["ranks"].label == view.label for view in shown)


def test_what_cannot_work_is_told_before_the_work(callable_encoder, dev, tmp_path):
    encoder = Counting(callable_encoder)
    (tmp_path / "file").write_text("")
    for wrong, error in (
        ({"output": tmp_path / "file/below"}, NotADirectoryError),
        ({"tasks": ["stss"]}, InputError),
    ):
        with pytest.raises(error):
            evaluate(encoder, dev=dev, cache=False, **wrong)
    with pytest.raises(InputError, match="no-such-folder"):
        evaluate([encoder, "./no-such-folder"], dev=dev, cache=False)
    with pytest.raises(InputError, match="no model"):
        evaluate([], dev=dev)
    assert encoder.seen == 0


def test_bad_vectors(dev):
    with pytest.raises(InputError, match="returned a NaN or infinite vector for"):
        evaluate(lambda texts: np.full((len(texts), 3), np.nan), dev=dev, cache=False)
    with pytest.raises(InputError, match="mine: a rank correlation needs different similarities"):
        evaluate(lambda texts: np.ones((len(texts), 3)), dev=dev, tasks=["sts"], cache=False)


def test_unknown_tasks_get_the_nearest_name(run_cli, tiny_saved, dev):
    code, _, err = run_cli("evaluate", tiny_saved, "--dev", dev, "-t", "choise")
    assert code == 2
    assert "unknown task 'choise': did you mean 'choice'?" in err


def test_no_data_is_said_clearly(run_cli, tiny_saved, tmp_path, monkeypatch):
    monkeypatch.setenv("RANKENCODER_DATA", str(tmp_path / "nothing"))
    code, _, err = run_cli("evaluate", tiny_saved)
    assert code == 2
    assert "rankencoder data fetch" in err
    assert "there is no evaluation data, and no" in err


def test_missing_and_renamed_files_are_named(run_cli, tiny_saved, data, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    (copy / "STS14/images.tsv").rename(copy / "STS14/pictures.tsv")
    code, _, err = run_cli("evaluate", tiny_saved, "--data", copy, "-o", tmp_path / "out")
    assert code == 2
    assert "STS14/images.tsv" in err
    assert "rankencoder data fetch" in err


def test_command(run_cli, tiny_saved, tiny_folder, dev, corpus_file, tmp_path, monkeypatch):
    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RANKENCODER_DATA", str(tmp_path / "nothing"))
    given = ("evaluate", tiny_saved, tiny_folder, "--dev", dev, "-o", tmp_path / "out")
    code, out, err = run_cli(*given, "-t", "sts", "-t", "choice")
    assert code == 0, err
    assert "95% interval" in out
    assert "plain cosine" in out
    assert "rankencoder report" in out
    code, out, err = run_cli(*given, "-t", "sts", "--corpus", corpus_file, "--json")
    assert code == 0, err
    answer = json.loads(out)
    first, second = (f"{folder.parent.name}/model" for folder in (tiny_saved, tiny_folder))
    assert set(answer["scores"]) == {
        *(f"{first}, {kind}" for kind in ("cosine", "ranks", "blend 0.3")),
        *(f"{second}, {kind}" for kind in ("cosine", "ranks", "blend 0.1")),
    }
    assert all(Path(file).is_file() for file in answer["files"])


def write_part_of_senteval(shared, folder):
    """Write TREC with 30 rows of each class, and the first 200 pairs of MRPC."""
    source = next((shared / "data/senteval").rglob("TREC")).parent
    for name, number in (("TREC/train_5500.label", 30), ("TREC/TREC_10.label", 30)):
        lines, seen = (source / name).read_bytes().splitlines(keepends=True), Counter()
        kept = [line for line in lines if seen.update([line[:4]]) or seen[line[:4]] <= number]
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"".join(kept))
    for name in ("MRPC/msr_paraphrase_train.txt", "MRPC/msr_paraphrase_test.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"".join((source / name).read_bytes().splitlines(keepends=True)[:201]))
    return folder


def test_transfer_is_of_raw_and_of_blended_vectors(
    shared, callable_encoder, sentences, tmp_path, monkeypatch
):
    model = RankEncoder(callable_encoder, sentences, form="linear", rank_weight=0.5, progress=False)
    data = write_part_of_senteval(shared, tmp_path / "senteval")
    monkeypatch.setattr("paper_sections.TRANSFER_TASKS", ("TREC",))
    found = measure_transfer(open_subjects(model), data)
    task = read_transfer_task(data, "TREC")
    for system, encode in (("cosine", callable_encoder), ("blend 0.5", model.encode)):
        assert found["systems"][system]["tasks"]["TREC"] == score_transfer(task, encode)
    assert found["data"]["TREC"]["fingerprint"] == task.fingerprint


def test_mteb_through_the_command(run_cli, tiny_saved, tmp_path, monkeypatch):
    mteb = pytest.importorskip("mteb")
    from mteb.mocks.mock_tasks import MockSTSTask

    monkeypatch.setattr(mteb, "get_task", {"MockSTS": MockSTSTask()}.__getitem__)
    code, out, err = run_cli("evaluate", tiny_saved, "--mteb", "MockSTS", "-o", tmp_path, "--json")
    assert code == 0, err
    task = MockSTSTask()
    task.load_data()
    given = task.dataset["test"]
    model = RankEncoder.load(tiny_saved)
    ours = model.similarity_pairwise(list(given["sentence1"]), list(given["sentence2"]))
    (row,) = json.loads(out)
    assert row["score"] == pytest.approx(spearmanr(ours, given["score"]).statistic, abs=1e-4)
    assert len(list((tmp_path / "mteb").rglob("*.json"))) == 1
    code, _, err = run_cli("evaluate", tiny_saved, "--mteb", "MockST", "-o", tmp_path)
    assert code == 2
    assert "mteb has no such task (MockST)" in err
