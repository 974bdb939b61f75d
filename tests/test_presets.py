"""Settings of the methods and presets, against the specification's tables."""

from types import SimpleNamespace

import pytest
from loss_oracles import TARGETS

from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.config import Given, read_given
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
    assert (chosen.seed, chosen.stage2_seed, chosen.max_steps) == (42, 42, 0)
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
            {"first": "feature-cutoff", "second": "shuffle"},
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
    chosen = read_given({"preset": "authors-code", "method": "sncse", "stage2_seed": 0, **given}).resolve(
        stand_in("bert"), SNCSE
    )
    assert {name: getattr(chosen, name) for name in given} == given
    assert chosen.stage2_seed == 0
