"""Teachers of other methods, trained in one run; the preset "best"."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from training_runs import flags, same_weights

import rankencoder
from rankencoder.errors import InputError
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.config import read_given
from rankencoder.training.methods import find_method

pytestmark = pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
LEARNS = {
    "max_steps": 3,
    "combine": "sum",
    "rank_loss_weight": 3.0,
    "target": "cosine",
    "lower": -1.0,
    "upper": 1.0,
}
BOTH = ["consert", "promptbert"]


@pytest.fixture
def apart(train):
    """E2 of teachers that were trained one by one."""
    teachers = [str(train(name, method=name, only_base=True, max_steps=3).encoder) for name in BOTH]
    return train("apart", method="consert", base_encoder=teachers, **LEARNS)


def test_teachers_are_trained_as_if_apart(train, apart):
    run = train("together", method="consert", teachers=BOTH, **LEARNS)
    assert same_weights(run.encoder, apart.encoder)
    assert same_weights(run.folder / "base", apart.folder.parent / "consert" / "base")
    assert same_weights(run.folder / "teachers" / "promptbert", apart.folder.parent / "promptbert" / "base")
    assert not (run.folder / "work").exists()
    told = run.record["teachers"]["promptbert"]
    assert told["config"]["method"] == "promptbert"
    assert told["stages"][0]["steps"] == 3
    assert [stage["stage"] for stage in run.record["stages"]] == [1, 2]


def test_a_method_need_not_teach_itself(train):
    run = train(method="simcse", teachers=["consert"], **LEARNS)
    assert not (run.folder / "base").exists()
    assert [stage["stage"] for stage in run.record["stages"]] == [2]
    given = train("given", method="simcse", base_encoder=str(run.folder / "teachers" / "consert"), **LEARNS)
    assert same_weights(run.encoder, given.encoder)


def test_a_run_that_was_interrupted_in_a_teacher_goes_on_there(train, train_killed, tmp_path):
    settings = {"teachers": BOTH, "save_steps": 1, **LEARNS}
    whole = train("whole", **settings)
    train_killed("cut", stage=1, step=2, **settings)
    run = rankencoder.train(output=tmp_path / "cut", resume=True, progress=False)
    assert same_weights(run.encoder, whole.encoder)
    assert list(run.record["teachers"]) == BOTH


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"teachers": ["simcse"], "only_base": True}, "only_base trains no E2"),
        ({"teachers": ["simcse"], "base_encoder": "x"}, "base_encoder replaces them"),
        ({"teachers": ["simcse", "simcse"]}, "teachers names a method twice"),
        ({"teachers": ["simpcse"]}, "simcse"),
    ],
)
def test_what_makes_no_sense_is_said_first(train, tmp_path, settings, message):
    with pytest.raises(InputError, match=message):
        train(**settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("role", ["student", "promptbert"])
def test_the_default_is_what_was_measured(backbone, role):
    """Settings of the runs in results/, but for data, seed and machine."""
    run = json.loads((Path(__file__).parents[1] / "results/runs/recipe/best-1.json").read_text())
    measured = {name: value for name, value in run["config"].items() if value is not None}
    other = ("corpus", "output", "backbone", "dev", "seed", "save_steps", "workers", "options", "compile")
    removed = ("rounds", "neighbors", "reference_seed", "stage2_seed")
    removed += ("listwise_weight", "listwise_temperature")
    given = read_given({})
    name = given.method if role == "student" else role
    teacher = None if role == "student" else role
    found = given.resolve(load_backbone(str(backbone)), find_method(name), method=teacher)
    if role == "student":
        names = [name for name in measured if name not in (*other, *removed)]
        assert {name: measured[name] for name in names} == {name: getattr(found, name) for name in names}
    else:
        assert (found.batch_size, found.learning_rate) == (64, 3e-5)
    assert found.eval_steps == measured["eval_steps"] == 100


def test_best_is_what_the_command_line_does_by_default(run_cli, backbone, corpus_file, tmp_path):
    settings = flags(backbone=backbone, batch_size=8, max_steps=2, reference_size=1000)
    code, out, err = run_cli("train", corpus_file, *settings, "-o", tmp_path / "best")
    assert code == 0, err
    assert "3. train E1 by promptbert: 2 steps" in err
    assert "teacher promptbert: 2 steps" in out
    assert err.count("sentences is small") <= 1  # not of each teacher again
    assert (tmp_path / "best" / "encoder" / "model.safetensors").exists()


def test_a_corpus_too_small_for_a_teacher_is_found_before_anything_is_trained(train, tmp_path, sentences):
    few = sentences[:100]  # promptbert's batch is 256
    with pytest.raises(InputError, match="fewer than one batch of 256"):
        train(corpus=few, teachers=["simcse", "promptbert"], batch_size=None, method="simcse")
    assert not (tmp_path / "run").exists()


def test_a_base_encoder_alone_teaches(run_cli, backbone, tiny_folder, corpus_file, tmp_path, sentences):
    """Without --method and --preset: E2's cosines come nearer to the given encoder's."""
    settings = flags(backbone=backbone, base_encoder=tiny_folder, max_steps=40, batch_size=32)
    settings += flags(learning_rate=1e-2, reference_size=1000)
    code, out, err = run_cli("train", corpus_file, *settings, "-o", tmp_path / "run")
    assert code == 0, err
    loss = "contrastive + 10 × squared error + ListNet"
    assert f"by {tiny_folder} -> work/targets\n" in err
    assert f"train E2 by consert and its teachers' cosines (loss: {loss}): 40 steps" in err
    assert out.splitlines()[0].startswith("stage 2: 40 steps")
    texts = sentences[::31]
    start = find_method("consert")().encoder(load_backbone(str(backbone))).to("cpu")
    taught, teacher = (
        SentenceTransformer(str(f), device="cpu") for f in (tmp_path / "run/encoder", tiny_folder)
    )
    pairs = np.triu_indices(len(texts), k=1)

    def cosines(model):
        vectors = model.encode(texts, normalize_embeddings=True)
        return (vectors @ vectors.T)[pairs]

    wanted = cosines(teacher)
    before, after = (spearmanr(cosines(model), wanted).statistic for model in (start, taught))
    assert after > before + 0.15


def test_a_base_encoder_that_was_not_listened_to_is_told_of(
    run_cli, backbone, tiny_folder, corpus_file, tmp_path
):
    settings = flags(backbone=backbone, base_encoder=tiny_folder, method="simcse", max_steps=1, batch_size=8)
    code, out, err = run_cli(
        "train", corpus_file, *settings, "--reference-size", 1000, "-o", tmp_path / "run"
    )
    assert code == 0, err
    assert "so E2 learned nothing from its base encoder: try --combine sum" in out
