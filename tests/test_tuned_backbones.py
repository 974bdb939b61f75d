"""A SentenceTransformer as backbone: it keeps its pooling, and its user is warned."""

import shutil
import warnings

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from training_runs import SMALL, flags

from rankencoder.errors import InputError, TrainingWarning
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.methods import make_method, methods
from rankencoder.training.run import plan_training

SENTENCES = ["The cat sees the dog", "A river moves", "the old house likes the song 1"]
SECOND_MODELS = {"dclr": "complementary", "diffcse": "generator"}
POOLS = sorted(set(methods()) - {"promptbert", "sncse", "prompteol"})
TUNED = "is a tuned sentence encoder: contrastive training usually makes it worse; `distill` can improve it"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, backbone):
    """Maximum over tokens and another dense layer, which no method has of itself."""
    modules = [Transformer(str(backbone)), Pooling(32, "max"), Dense(32, 32), Normalize()]
    folder = tmp_path_factory.mktemp("tuned") / "model"
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder))
    return folder


def made_by(name, folder):
    backbone = load_backbone(str(folder), dropout=methods()[name].dropout)
    second = {SECOND_MODELS[name]: str(folder)} if name in SECOND_MODELS else {}
    return backbone, make_method(name, second, methods()[name].defaults(backbone))


@pytest.mark.parametrize("name", POOLS)
def test_methods_that_pool_start_from_the_encoder_as_it_is(tuned, name):
    backbone, method = made_by(name, tuned)
    expected = SentenceTransformer(str(tuned), device="cpu").encode(SENTENCES)
    made = method.encoder(backbone).to("cpu")
    np.testing.assert_allclose(made.encode(SENTENCES), expected, atol=1e-6)


def test_prompts_and_an_explicit_pooling_replace_it(tuned):
    backbone, promptbert = made_by("promptbert", tuned)
    kinds = [type(module).__name__ for module in promptbert.encoder(backbone)]
    assert kinds == ["Transformer", "WordWeights", "Pooling"]
    mean = make_method("simcse", {"pooling": "mean"}, {}).encoder(load_backbone(str(tuned)))
    assert [type(module).__name__ for module in mean] == ["Transformer", "Pooling"]


@pytest.mark.parametrize("name", ["simcse", "consert"])
def test_the_pooling_is_trained_and_saved(train, tuned, name):
    with pytest.warns(TrainingWarning, match=TUNED):
        run = train(backbone=str(tuned), method=name, only_base=True, max_steps=2)
    saved, before = (SentenceTransformer(str(folder), device="cpu") for folder in (run.encoder, tuned))
    assert [type(module) for module in saved] == [Transformer, Pooling, Dense, Normalize]
    assert saved[1].pooling_mode == "max"
    assert not np.array_equal(saved[2].linear.weight.detach(), before[2].linear.weight.detach())


def test_a_tuned_causal_encoder_gets_no_prompt(tmp_path):
    from tiny_backbones import KINDS, tiny_model

    tokenizer = KINDS["llama"][0]()
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path / "plain")
    tiny_model("llama", tokenizer).save_pretrained(tmp_path / "plain")
    modules = [Transformer(str(tmp_path / "plain")), Pooling(32, "lasttoken"), Normalize()]
    made = SentenceTransformer(modules=modules, device="cpu")
    made.save_pretrained(str(tmp_path / "tuned"))
    backbone, simcse = made_by("simcse", tmp_path / "tuned")
    found = simcse.encoder(backbone).to("cpu").encode(SENTENCES)
    np.testing.assert_allclose(found, made.encode(SENTENCES), atol=1e-6)
    ids = tokenizer(SENTENCES)["input_ids"]
    assert simcse.views({"text": SENTENCES}, backbone, 32) == [ids, ids]


def test_a_hub_name_keeps_its_pooling_too(tuned, tmp_path, monkeypatch):
    """The hub's cache layout, filled by hand."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--someone--tuned"
    shutil.copytree(tuned, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    loaded = load_backbone("someone/tuned", revision="main")
    assert [type(module).__name__ for module in loaded.pooling] == ["Pooling", "Dense", "Normalize"]


def test_the_warning_is_one_line_and_only_for_tuned_ones(run_cli, tuned, backbone, corpus_file, tmp_path):
    given = [corpus_file, "-o", tmp_path / "run", "--plan"]
    _, _, err = run_cli("train", *given, *flags(backbone=tuned))
    assert err == f"warning: backbone {str(tuned)!r} {TUNED}\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan_training(corpus_file, tmp_path / "run", backbone=str(backbone), **SMALL)


def test_a_vector_of_another_size_does_not_fit_diffcse(backbone, tmp_path):
    modules = [Transformer(str(backbone)), Pooling(32), Dense(32, 16)]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(tmp_path / "small"))
    loaded, method = made_by("diffcse", tmp_path / "small")
    with pytest.raises(InputError, match="its embeddings have no room"):
        method.check(loaded)
