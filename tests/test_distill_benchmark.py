"""The distillations of results/ fit together, and their tables are those of the raw results."""

import json
from pathlib import Path

import distill_scores
import distill_table
import numpy as np
import pytest
from distill import DO, make_jobs
from distill_experiments import EXPERIMENTS
from pages import MISSING
from pypi_encoders import KNOWN
from sklearn.metrics import roc_auc_score

from rankencoder.encoders import Encoder
from rankencoder.io.pairs import ScoredPair

PAGE = Path(__file__).parents[1] / "results/README.md"


def test_experiments_are_of_encoders_that_can_be_made():
    for name, of in EXPERIMENTS.items():
        assert of.kind in DO, name
        used = {of.start, of.settings["student"], *of.settings.get("teacher", [])}
        assert used - {"static"} <= KNOWN.keys(), name
        assert f"encoder-{of.start}" in EXPERIMENTS, name


def test_peers_train_like_ours():
    for name in ("minilm-3", "mpnet-6"):
        ours, peer = (dict(EXPERIMENTS[f"{what}-{name}"].settings) for what in ("layers", "mse"))
        assert ours.pop("teacher") == [ours["student"]]
        assert ours == peer


def test_jobs_are_chosen_by_name_and_seed():
    every = make_jobs([], [], work="w", encoders="e", sentences=10)
    assert len({job.key for job in every}) == len(every) == sum(len(of.seeds) for of in EXPERIMENTS.values())
    json.dumps([vars(job) for job in every])
    assert [job.key for job in make_jobs(["minilm-[36]", "static"], [2])] == [
        "minilm-3-2",
        "minilm-6-2",
        "static-2",
    ]


def made(name, *averages):
    sets = (*distill_table.SETS, *distill_table.DEV)
    return [{"name": name, "seed": i, "scores": dict.fromkeys(sets, a)} for i, a in enumerate(averages)]


def test_a_table_has_mean_deviation_and_difference_of_each_set():
    runs = {"encoder-minilm": made("encoder-minilm", 78.5), "minilm-3": made("minilm-3", 80.0, 81.0)}
    head, _, start, student = distill_table.students_table(runs).splitlines()
    assert head.split(" | ")[1:9] == ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "AVG"]
    assert start.split(" | ")[1] == "78.50"
    deviation = np.std([80, 81], ddof=1)
    assert student.split(" | ")[1:11] == [f"80.50 ± {deviation:.2f} (+2.00)"] * 10
    assert student.endswith("| 2 |")
    assert distill_table.questions_table(runs).splitlines()[-1].split(" | ")[1] == "–"  # not measured


def test_what_was_not_measured_is_said_to_be_so():
    assert {make({}) for make in distill_table.TABLES.values()} == {MISSING}


def test_tables_are_made_of_the_raw_results():
    page = PAGE.read_text(encoding="utf-8")
    assert distill_table.updated(page) == page


def test_raw_results_say_what_they_are_and_not_where_they_were_made():
    for file in (PAGE.parent / "distill").glob("*.json"):
        text = file.read_text(encoding="utf-8")
        assert not any(place in text for place in ('"/tmp', '"/work', '"/root', '"/home'))
    for name, of in distill_table.read().items():
        assert all(run["settings"] == EXPERIMENTS[name].settings for run in of), name
        assert len({run["seed"] for run in of}) == len(of)
        assert len({run["sentences"] for run in of}) == 1
        assert all(np.isfinite(list(run["scores"].values())).all() for run in of)


def test_questions_are_scored_by_the_area_under_the_curve(monkeypatch):
    rng = np.random.default_rng(0)
    angles = {f"q{i}": rng.uniform(0, np.pi) for i in range(60)}
    names = [rng.choice(list(angles), size=2, replace=False) for _ in range(200)]
    pairs = [ScoredPair(str(a), str(b), float(rng.integers(2))) for a, b in names]
    monkeypatch.setattr(distill_scores, "read_questions", lambda: pairs)
    encoder = Encoder(lambda texts: [[np.cos(angles[text]), np.sin(angles[text])] for text in texts])
    cosines = [np.cos(angles[a] - angles[b]) for a, b, *_ in pairs]
    expected = roc_auc_score([pair.score for pair in pairs], cosines)
    assert distill_scores.score_questions(encoder) == pytest.approx(100 * expected)


def test_questions_are_drawn_of_pairs_with_both_labels(monkeypatch):
    pairs = [ScoredPair(f"a{i}", f"b{i}", float(i % 2)) for i in range(100)]
    monkeypatch.setattr(distill_scores, "read_questions", lambda: pairs)
    seen = set(distill_scores.seen_questions())
    halves = {flag: [p.score for p in pairs if (p[0] in seen) is flag] for flag in (True, False)}
    assert [len(half) for half in halves.values()] == [50, 50]
    assert all(0.2 < np.mean(half) < 0.8 for half in halves.values())
