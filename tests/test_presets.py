"""Settings of the methods and presets, against the specification's tables."""

import re
from types import SimpleNamespace

import pytest
from loss_oracles import TARGETS

from rankencoder.errors import InputError
from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.config import Given, TrainConfig, default_text, read_given
from rankencoder.training.losses.formulas import (
    select_pairs,
)
from rankencoder.training.methods import (
    DCLR,
    SNCSE,
    ConSERT,
    DiffCSE,
    ESimCSE,
    PromptBERT,
    SimCSE,
    SimCSEWithMLM,
    make_method,
)
from rankencoder.training.plan import describe_loss
from rankencoder.training.settings_file import write_settings


def stand_in(kind, hidden_size=768):
    """A backbone by its configuration alone."""
    from transformers import AutoConfig

    config = AutoConfig.for_model(kind, hidden_size=hidden_size)
    module = SimpleNamespace(model=SimpleNamespace(config=config))
    return Backbone(kind, None, module, None, "causal" if kind == "llama" else "masked", None)


@pytest.mark.parametrize(
    ("method", "kind", "size", "batch_size", "learning_rate"),
    [
        (SimCSE, "bert", 768, 64, 3e-5),
        (SimCSE, "roberta", 768, 512, 1e-5),
        (SimCSE, "bert", 1024, 64, 1e-5),
        (SimCSE, "roberta", 1024, 512, 3e-5),
        (SimCSEWithMLM, "bert", 768, 64, 3e-5),
        (PromptBERT, "bert", 768, 256, 1e-5),
        (PromptBERT, "roberta", 768, 256, 1e-5),
        (SNCSE, "bert", 768, 256, 1e-5),
        (SNCSE, "roberta", 768, 256, 1e-5),
        (SNCSE, "bert", 1024, 128, 5e-6),
        (SNCSE, "roberta", 1024, 128, 5e-6),
    ],
)
def test_settings_of_the_base_methods(method, kind, size, batch_size, learning_rate):
    """Sections 1.2, 2.6, 3.5 and 12."""
    backbone = stand_in(kind, size)
    chosen = Given({"method": method.name}).resolve(backbone, method)
    assert (chosen.batch_size, chosen.learning_rate) == (batch_size, learning_rate)
    assert chosen.precision == ("fp32" if method is SNCSE else "fp16")
    assert (chosen.epochs, chosen.max_length, chosen.eval_steps) == (1, 32, 125)
    assert (chosen.weight_decay, chosen.warmup_steps, chosen.max_grad_norm) == (0, 0, 1)
    assert (chosen.seed, chosen.max_steps) == (42, 0)
    assert chosen.max_seq_length >= 128
    made = make_method(method.name, {}, method.defaults(backbone))
    assert made.temperature == 0.05
    if method is SNCSE:
        assert (made.alpha, made.beta) == (0.1, 0.3)
        assert made.margin_weight == (5e-4 if kind == "roberta" else 1e-3)
    if method is SimCSEWithMLM:
        assert (made.mlm_weight, made.mlm_probability) == (0.1, 0.15)


@pytest.mark.parametrize(
    ("method", "kind", "size", "settings", "options"),
    [
        (ConSERT, "bert", 768, (96, 5e-7, 10, 64, "fp16"), {"temperature": 0.1, "cutoff_rate": 0.2}),
        (
            ConSERT,
            "roberta",
            768,
            (96, 5e-7, 10, 64, "fp16"),
            {"loss_weight": 0.15},
        ),
        (ESimCSE, "bert", 768, (64, 3e-5, 1, 32, "fp16"), {"repetition_rate": 0.32, "queue_size": 160}),
        (ESimCSE, "roberta", 768, (64, 1e-5, 1, 32, "fp16"), {"repetition_rate": 0.3, "momentum": 0.995}),
        (ESimCSE, "bert", 1024, (64, 1e-5, 1, 32, "fp16"), {"repetition_rate": 0.32, "queue_size": 160}),
        (ESimCSE, "roberta", 1024, (64, 1e-5, 1, 32, "fp16"), {"repetition_rate": 0.28, "queue_size": 128}),
        (DCLR, "bert", 768, (128, 3e-5, 3, 32, "fp32"), {"threshold": 0.9, "noise_ratio": 1}),
        (DCLR, "roberta", 768, (128, 3e-5, 3, 32, "fp32"), {"threshold": 0.85, "noise_ratio": 2.5}),
        (DCLR, "bert", 1024, (64, 3e-5, 1, 32, "fp32"), {"threshold": 0.9, "noise_ratio": 3}),
        (DCLR, "roberta", 1024, (64, 1e-5, 1, 32, "fp32"), {"threshold": 0.85, "noise_ratio": 5}),
        (DiffCSE, "bert", 768, (64, 7e-6, 2, 32, "fp16"), {"mask_ratio": 0.3, "rtd_weight": 0.005}),
        (DiffCSE, "roberta", 768, (64, 1e-5, 2, 32, "fp16"), {"mask_ratio": 0.2, "rtd_weight": 0.005}),
    ],
)
def test_settings_of_the_other_methods(method, kind, size, settings, options):
    """Sections 4.3, 5.4, 6.5, 7.3 and 12."""
    backbone = stand_in(kind, size)
    chosen = Given({"method": method.name}).resolve(backbone, method)
    names = ("batch_size", "learning_rate", "epochs", "max_length", "precision")
    assert tuple(getattr(chosen, name) for name in names) == settings
    consert = method is ConSERT
    assert (chosen.weight_decay, chosen.warmup_steps) == ((0.01, 0.1) if consert else (0, 0))
    assert (chosen.eval_steps, chosen.patience) == ((200, 10) if consert else (125, 0))
    made = make_method(method.name, {}, method.defaults(backbone)).options()
    assert {name: made[name] for name in options} == options
    assert made["temperature"] == (0.1 if consert else 0.05)
    values = {"epochs": 2.5, "learning_rate": 1e-4, "warmup_steps": 7, "patience": 3}
    given = read_given({"method": method.name, **values}).resolve(backbone, method)
    assert (given.epochs, given.learning_rate, given.warmup_steps, given.patience) == (2.5, 1e-4, 7, 3)


PAPER = {"lower": 0.5, "upper": 0.8, "combine": "max", "student": "encoder", "reference_size": 100_000}
SUMMED = {"upper": 0.9999, "combine": "sum"}
SCRIPTS = {"student": "head", "reference_size": 10_000}


@pytest.mark.parametrize(
    ("method", "preset", "expected", "with_oneself"),
    [
        (SimCSE, "paper", {**PAPER, "batch_size": 64}, False),
        (PromptBERT, "paper", {**PAPER, "batch_size": 256}, False),
        (SNCSE, "paper", {**PAPER, "batch_size": 256}, False),
        (
            SimCSE,
            "authors-code",
            {**PAPER, **SUMMED, **SCRIPTS, "batch_size": 64, "learning_rate": 3e-5},
            True,
        ),
        (SimCSEWithMLM, "authors-code", {**PAPER, **SUMMED, **SCRIPTS, "batch_size": 64}, True),
        (PromptBERT, "authors-code", {**PAPER, **SCRIPTS, "batch_size": 256, "learning_rate": 1e-5}, False),
        (
            SNCSE,
            "authors-code",
            {**PAPER, **SUMMED, **SCRIPTS, "batch_size": 128, "learning_rate": 1e-5},
            True,
        ),
    ],
)
def test_presets(method, preset, expected, with_oneself):
    """Sections 9.4 and 13."""
    chosen = read_given({"preset": preset, "method": method.name}).resolve(stand_in("bert"), method)
    assert {name: getattr(chosen, name) for name in expected} == expected
    assert (chosen.rank_loss_weight, chosen.rank_weight) == (0.05, 0.1)
    pairs = select_pairs(TARGETS, chosen.lower, chosen.upper, chosen.diagonal)
    assert pairs.diagonal().tolist() == [with_oneself] * 3


def test_what_is_given_goes_before_every_preset():
    given = {"batch_size": 7, "upper": 0.6, "combine": "max", "diagonal": "never", "precision": "bf16"}
    chosen = read_given({"preset": "authors-code", "method": "sncse", **given}).resolve(
        stand_in("bert"), SNCSE
    )
    assert {name: getattr(chosen, name) for name in given} == given


# --- which recipe is chosen ---


def test_the_default_is_best():
    assert read_given({}).draft == read_given({"preset": "best"}).draft
    best = read_given({})
    assert (best.preset, best.method, best.draft.teachers) == ("best", "consert", ["consert", "promptbert"])
    assert (best.draft.target, best.draft.listwise, best.draft.combine) == ("cosine", "listnet", "sum")


def test_a_method_means_its_own_recipe():
    own = read_given({"method": "simcse"})
    assert (own.preset, own.method, own.draft.teachers) == ("paper", "simcse", [])
    assert own.draft == read_given({"preset": "paper", "method": "simcse"}).draft
    assert read_given({"preset": "paper"}).method == "simcse"
    assert read_given({"preset": "best", "method": "simcse"}).draft.teachers == ["consert", "promptbert"]


OTHER = {
    "options": {"temperature": 0.2},
    "teachers": ["sncse"],
    "base_encoder": ["a/b"],
    "only_base": True,
    "target": "ranks",
    "combine": "max",
    "rank_loss_weight": 0.0,
    "lower": 0.25,
    "diagonal": "always",
    "student": "head",
    "listwise": "none",
    "reference_size": 500,
    "batch_size": 7,
    "learning_rate": 1e-4,
}


@pytest.mark.parametrize("preset", ["best", "paper", "authors-code"])
@pytest.mark.parametrize("name", OTHER)
def test_any_other_setting_keeps_the_recipe_and_takes_effect(name, preset):
    given = {name: OTHER[name], **({} if preset == "best" else {"preset": preset})}
    plain = read_given({"preset": preset})
    method = {"best": ConSERT}.get(preset, SimCSE)
    chosen, before = (
        found.resolve(stand_in("bert"), method).model_dump() for found in (read_given(given), plain)
    )
    if name == "options":
        assert chosen["options"] == {**before["options"], "temperature": 0.2}
    else:
        assert chosen[name] == OTHER[name]
    changed = {key for key in before if chosen[key] != before[key]}
    assert changed <= ({name, "teachers"} if name in ("only_base", "base_encoder") else {name})


def test_settings_of_a_teacher_are_those_given_without_the_students_options():
    given = read_given({"options": {"cutoff_rate": 0.5}, "batch_size": 9})
    teacher = given.resolve(stand_in("bert"), PromptBERT, method="promptbert")
    assert (teacher.method, teacher.preset, teacher.only_base) == ("promptbert", "best", True)
    assert (teacher.batch_size, teacher.learning_rate, teacher.teachers) == (9, 3e-5, [])
    assert {"temperature": 0.05, "dev_bias": False}.items() <= teacher.options.items()
    assert "cutoff_rate" not in teacher.options
    own = given.resolve(stand_in("bert"), ConSERT, method="consert")
    assert (own.options["cutoff_rate"], own.batch_size, own.learning_rate) == (0.5, 9, 2e-5)
    assert given.resolve(stand_in("bert"), ConSERT).teachers == ["consert", "promptbert"]


@pytest.mark.parametrize(
    ("values", "loss"),
    [
        ({}, "loss: contrastive + 10 × squared error + ListNet"),
        ({"method": "consert"}, "loss: max(contrastive, 0.05 × squared error)"),
    ],
)
def test_the_loss_is_described_as_a_formula(values, loss):
    assert describe_loss(read_given(values).resolve(stand_in("bert"), ConSERT)) == loss


# --- settings files ---


def test_what_was_given_is_written_and_read_back(tmp_path):
    given = read_given(
        {"corpus": "a.txt", "dev": "d.tsv", "target": "-0.5", "options": {"temperature": 0.2}, "seed": 7}
    )
    resolved = given.resolve(stand_in("bert"), ConSERT)
    write_settings(tmp_path / "train.yaml", given.values, resolved.model_dump())
    assert read_given({}, tmp_path / "train.yaml") == given
    lines = (tmp_path / "train.yaml").read_text().splitlines()
    assert [line.removeprefix("# ").partition(":")[0] for line in lines] == list(TrainConfig.model_fields)
    assert "seed: 7" in lines
    assert {"# learning_rate: 2.0e-05", "# teachers: [consert, promptbert]"} < {*lines}
    changed = read_given({"seed": 1, "column": None}, tmp_path / "train.yaml")
    assert changed.values == {**given.values, "seed": 1}


def test_a_mistake_is_found_where_it_is(tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text("corpus: a.txt\n\nlearning_rate: -1\n")
    with pytest.raises(
        InputError, match=r"train\.yaml, line 3: learning_rate is -1, but must be greater than 0$"
    ):
        read_given({}, path)
    assert read_given({"learning_rate": 1e-3}, path).values["learning_rate"] == 1e-3
    with pytest.raises(InputError, match="^learning_rate is -2.0, but must be greater than 0$"):
        read_given({"learning_rate": -2.0}, path)


def test_every_setting_has_a_type_a_default_and_a_help():
    for name, field in TrainConfig.model_fields.items():
        assert field.get_default(call_default_factory=True) is not None, name
        assert re.fullmatch(r"[^\n]{8,90}\.", field.description), field.description
    assert default_text("learning_rate") == "3e-05; or the method's"
    assert default_text("teachers") == "best: consert, promptbert"
