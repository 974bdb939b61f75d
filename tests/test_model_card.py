"""Model cards of everything that comes out, read back by the hub's own library."""

import numpy as np
import pytest
import torch
from card_checks import checked, run_usage
from huggingface_hub import ModelCard as HubCard
from sentence_transformers import SentenceTransformer

from rankencoder import RankEncoder
from rankencoder.io.pairs import ScoredPair
from rankencoder.model_card import ModelCard, is_hub_name
from rankencoder.tuning.tuner import tune


def test_a_rankencoder(tiny_model, tmp_path):
    tiny_model.save(tmp_path / "m")
    card = checked(tmp_path / "m")
    assert f"{tiny_model.fidelity}" in card.content
    assert "Made with rankencoder " in card.content  # no link: the package is on no index yet
    expected = tiny_model.encode(["A cat sleeps.", "A dog barks."])
    np.testing.assert_allclose(run_usage(card, tmp_path / "m"), expected, atol=1e-6)
    (tmp_path / "m" / "README.md").write_text("mine")  # people edit it
    RankEncoder.load(tmp_path / "m")


def test_a_tuned_one_has_the_figures_of_the_choice(tiny_model, sentences, tmp_path):
    pairs = [ScoredPair(sentences[i], sentences[i + 1], i % 6) for i in range(0, 200, 2)]
    tuned = tune(tiny_model, pairs, progress=False)
    tuned.save(tmp_path / "t")
    assert str(tuned) in checked(tmp_path / "t").content


def test_a_fusion(tiny_folder, sentences, tmp_path):
    other = SentenceTransformer(str(tiny_folder), device="cpu")
    with torch.no_grad():
        next(other.parameters()).mul_(1.5)
    RankEncoder([str(tiny_folder), other], sentences, progress=False).save(tmp_path / "f")
    card = checked(tmp_path / "f")
    assert card.content.count("# Fusion of ") == 1
    assert run_usage(card, tmp_path / "f").shape[0] == 2


@pytest.mark.parametrize("form", ["compact", "linear"])
def test_an_export(tiny_model, tmp_path, form):
    tiny_model.with_form(form).to_sentence_transformer().save_pretrained(str(tmp_path / "e"))
    card = checked(tmp_path / "e")
    assert ("trust_remote_code=True" in card.content) == (form == "compact")
    run_usage(card, tmp_path / "e")


def test_only_names_on_the_hub_are_base_models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-run" / "base").mkdir(parents=True)
    names = ["intfloat/e5-small?prompt=query: ", "my-run/base", "openai:x", "bert-base-uncased", "/a/b"]
    assert [is_hub_name(name) for name in names] == [True, False, False, True, False]


def test_text_of_users_cannot_break_a_card(tmp_path):
    hostile = "a | b: [c]\n---\n# x"
    ModelCard(hostile, "About.", [hostile], {"text": hostile}, [hostile], tags=[hostile]).write(tmp_path)
    card = HubCard.load(tmp_path / "README.md")
    assert card.data.tags[-1] == " ".join(hostile.split())
    assert card.content.count("\n# ") == 1
