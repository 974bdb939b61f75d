"""`rankencoder advise`: five lines on a real encoder, and the next command, which runs."""

import json
import shlex

import numpy as np
import pytest
from sts import wiki_sentences

from rankencoder.demo.encoder import bundled_encoder
from rankencoder.errors import InputError
from rankencoder.io.pairs import ScoredPair, read_scored_pairs
from rankencoder.tuning.advisor import advise


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "my corpus.txt"
    path.write_text("\n".join(text for text in wiki_sentences(2_000) if len(text) < 70))
    return path


def test_five_lines_of_a_real_encoder_and_a_command_that_runs(run_cli, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = bundled_encoder()
    code, out, err = run_cli("advise", model, corpus)
    assert code == 0, err
    starts = [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]
    assert starts == ["similarity", "distill", "fuse", "label", "next"]
    assert "Keep plain cosine" in out  # a supervised encoder
    command = shlex.split(out.splitlines()[-1].removeprefix("next"))
    assert command == ["rankencoder", "label", str(model), str(corpus), "-o", "labels.tsv"]
    monkeypatch.setattr("builtins.input", lambda: "q")
    assert run_cli(*command[1:])[0] == 0
    assert (tmp_path / "labels.tsv.json").exists()


def test_labels_of_a_real_encoder_lead_to_a_threshold(run_cli, corpus, shared, tmp_path, monkeypatch):
    rows = (shared / "data/pairs/qqp_dev.tsv").read_text(encoding="utf-8").splitlines()[::79]
    labels = tmp_path / "labels.tsv"
    labels.write_text("\n".join(rows) + "\n")
    code, out, err = run_cli("advise", bundled_encoder(), corpus, "--dev", labels, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["similarity"] == found["tuned"]["choice"]["sentence"]
    assert found["similarity"].startswith("Keep plain cosine: average precision")
    assert found["label"] == f"Done: {len(read_scored_pairs(labels))} yes/no labels can set a threshold."
    command = shlex.split(found["next"])
    assert command[1] == "threshold"
    assert run_cli(*command[1:])[0] in (0, 1)  # 1: no threshold keeps the promise
    monkeypatch.setattr("rankencoder.labels.fitted_curve.curve_folder", lambda _: None)  # as on the hub
    out = run_cli("advise", bundled_encoder(), corpus, "--dev", labels)[1]
    assert f"-o my-index && rankencoder threshold my-index {labels} --precision 0.9" in out


def test_each_step_has_a_reason(tiny_model, sentences, monkeypatch):
    random = np.random.default_rng(0)
    pairs = [
        ScoredPair(a, b, float(random.integers(0, 6)))
        for a, b in zip(sentences[:60], sentences[60:120], strict=True)
    ]
    few = advise(tiny_model, sentences[:500], pairs, progress=False)
    assert (few.step, few.sentences) == ("label", 500)
    assert few.lines["distill"].startswith("Not yet: 500 sentences are few")
    monkeypatch.setattr("rankencoder.tuning.advisor.ENOUGH", 400)
    many = advise(tiny_model, sentences[:500], pairs, progress=False)
    assert many.step == "distill"
    assert f"500 sentences take {many.sentences / many.speed / 60:.0f} minutes" in many.lines["distill"]


def test_a_corpus_that_says_nothing_is_refused(tiny_model):
    with pytest.raises(InputError, match="the corpus has 1 usable sentences"):
        advise(tiny_model, ["one", "one", ""])
