"""The study of choosing weights without labels: what it records, and what its rules choose."""

import argparse
import doctest
import json
from dataclasses import fields
from pathlib import Path

import labelfree_looks
import labelfree_rules
import labelfree_sample
import numpy as np
import pytest
from labelfree import KNOWN, make_job
from labelfree_rules import Run, agreement, leave_out, make_rules, regrets
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from vector_spaces import spread

from rankencoder.training import TrainConfig
from rankencoder.training.methods import methods


@pytest.mark.parametrize("module", [labelfree_looks, labelfree_rules, labelfree_sample])
def test_examples_are_right(module):
    assert doctest.testmod(module).failed == 0


def test_settings_are_settings():
    options = argparse.Namespace(set="{}", steps=None, sentences=64_000, backbone=Path("backbone"), looks=20)
    for name in set(KNOWN) - {"prompteol"}:
        settings = make_job(name, 1, options).settings
        assert set(settings) <= set(TrainConfig.model_fields)
        method = methods()[settings["method"]]
        assert set(settings.get("options", {})) <= {field.name for field in fields(method)}
        assert 19 <= settings["max_steps"] / settings["eval_steps"] <= 22


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, sentences, tiny_folder):
    """Two looks at a model, and averages of its weights."""
    folder = tmp_path_factory.mktemp("labelfree")
    (folder / "corpus.txt").write_text("\n".join(f"{a} and then again" for a in sentences[:600]) + "\n")
    pairs = [(i % 5, sentences[i], sentences[-i - 1]) for i in range(60)]
    (folder / "dev.tsv").write_text("".join(f"{score}\t{a}\t{b}\n" for score, a, b in pairs))
    sample = labelfree_sample.draw_sample(folder / "corpus.txt", 200)
    sample.write(folder / "sample.json")
    recorder = labelfree_looks.Recorder(
        labelfree_sample.Sample.read(folder / "sample.json"), {"stsb": folder / "dev.tsv"}
    )
    model = SentenceTransformer(str(tiny_folder), device="cpu").train()
    recorder(model, steps=0)
    for weight in model.parameters():
        weight.data.mul_(1.5)
    recorder(model, steps=1)
    assert model.training
    recorder.look_at_averages()
    return recorder, pairs


def test_a_look_has_the_scores_of_other_libraries(recorded, tiny_folder):
    recorder, pairs = recorded
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    score, a, b = map(list, zip(*pairs, strict=True))
    oracle = EmbeddingSimilarityEvaluator(a, b, score, similarity_fn_names=["cosine"], write_csv=False)
    start = recorder.looks[0]
    assert start["dev"]["stsb"] == pytest.approx(oracle(model)["spearman_cosine"], abs=1e-6)
    vectors = model.encode(recorder.sample.texts["plain"], normalize_embeddings=True, convert_to_tensor=True)
    about = spread(vectors)
    for name in ("effective_rank", "first_share", "first_ten_share", "mean_norm"):
        assert start["proxies"][name] == pytest.approx(getattr(about, name), rel=1e-3)


def test_averages_are_of_the_weights(recorded):
    recorder, _ = recorded
    names = [look["name"] for look in recorder.looks]
    last, mean = recorder.looks[1], recorder.looks[names.index("mean of all")]  # of one look
    assert mean["dev"] == pytest.approx(last["dev"], abs=0.01)
    assert "step" not in mean


def run_of(name, seed, scores, good):
    looks = np.arange(len(scores))
    proxies = {"good": np.array(good, dtype=float), "step": looks.astype(float)}
    return Run(name, seed, "bert", looks, np.array(scores, dtype=float), proxies, {})


def test_agreement_is_scipys():
    a, b = np.random.default_rng(0).normal(size=(2, 3, 40)).round(1)
    assert agreement(a, b) == pytest.approx([spearmanr(x, y).statistic for x, y in zip(a, b, strict=True)])


def test_a_rule_is_judged_on_a_family_that_did_not_choose_it():
    falls, rises = [50, 70, 60, 55], [50, 60, 65, 70]
    runs = [run_of("a", 1, falls, falls), run_of("a-hot", 1, falls, falls), run_of("b", 1, rises, rises)]
    found = regrets(make_rules(runs)["best"], runs)
    assert found["best good"].tolist() == [0, 0, 0]
    assert found["best step"].tolist() == [15, 15, 0]
    held, chosen = leave_out({"step": found["best step"], "-step": found["best -step"]}, runs)
    # without "a" the last look is best, without "b" the first is worse than the last
    assert chosen == ["step", "step"]
    assert held.tolist() == [15, 15, 0]


def test_runs_are_read_with_their_cosines(tmp_path):
    dev = {"stsb": 0.5, "sick": 0.7, "semrel": 0.1}
    looks = [{"name": f"step {s}", "step": s, "dev": dev, "proxies": {"x": s, "y": 1.0}} for s in (0, 5)]
    looks.append({"name": "mean of all", "dev": dev, "proxies": {"x": 0.0}})
    (tmp_path / "consert-1.json").write_text(
        json.dumps({"name": "consert-lr", "seed": 1, "group": "bert", "looks": looks})
    )
    tables = np.random.default_rng(0).normal(size=(3, 30))
    np.savez(tmp_path / "consert-1.npz", gram=tables, near=tables)
    run = Run.read(tmp_path / "consert-1.json", ["stsb", "sick"])
    assert run.family == "bert consert"
    assert run.scores == pytest.approx([60, 60])
    assert run.averages == pytest.approx({"mean of all": 60})
    labelfree_rules.add_agreements([run])
    expected = spearmanr(tables[0], tables[1]).statistic
    assert run.proxies["agrees with start, gram"] == pytest.approx([1, expected])
