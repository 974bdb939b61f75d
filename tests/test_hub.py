"""To the hub and back, through huggingface_hub itself, with a stand-in of its API."""

import json

import numpy as np
import pytest
from hub_server import HubServer
from huggingface_hub import constants
from transformers.utils import hub as transformers_hub

from rankencoder import RankEncoder, Reference
from rankencoder.encoder_sources import push_folder
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.model import open_model

TEXTS = ["The cat sees the dog", "A river breaks"]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    server = HubServer()
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    monkeypatch.setattr(transformers_hub, "_hf_api", None, raising=False)  # an earlier one asks the real hub
    yield server
    server.close()


def names(hub, repository):
    return {name for owner, name in hub.files if owner == repository}


def test_a_rankencoder_there_and_back(hub, run_cli, tiny_saved, capsys):
    before = RankEncoder.load(tiny_saved)
    capsys.readouterr()
    (tiny_saved / "notes.bin").write_bytes(b"what nobody shall load")
    try:
        code, out, err = run_cli("push", tiny_saved, "me/tiny")
    finally:
        (tiny_saved / "notes.bin").unlink()
    assert (code, out, err.replace("\r", "")) == (0, f"{hub.url}/me/tiny\n", "")
    assert hub.created["me/tiny"]["private"]
    sent = names(hub, "me/tiny")
    assert {
        "rankencoder.json",
        "form.safetensors",
        "reference/reference.json",
        "encoder/modules.json",
    } <= sent
    assert "notes.bin" not in sent
    hub.add("me/tiny", "evil.bin", b"pickle", large=True)
    hub.log.clear()
    for loaded in (
        RankEncoder.load("me/tiny"),
        RankEncoder.load("me/tiny@v1"),
        open_model("me/tiny"),
    ):
        np.testing.assert_array_equal(loaded.encode(TEXTS), before.encode(TEXTS))
        assert loaded.name.startswith("me/tiny")
    assert "evil.bin" not in hub.downloads()
    assert any("/v1" in path for _, path, _ in hub.log), hub.log


def test_commands_take_a_hub_name(hub, run_cli, tiny_saved, corpus_file, tmp_path):
    push_folder(tiny_saved, "me/tiny")
    code, out, err = run_cli("similarity", "me/tiny", *TEXTS)
    assert (code, out) == run_cli("similarity", tiny_saved, *TEXTS)[:2]
    code, out, err = run_cli("info", "me/tiny", "--json")
    assert code == 0, err
    assert json.loads(out)["reference_size"] == len(Reference.load(tiny_saved / "reference"))
    code, _, err = run_cli("index", "me/tiny", corpus_file, "-o", tmp_path / "index")
    assert code == 0, err
    code, out, err = run_cli("search", tmp_path / "index", TEXTS[0], "--json")
    assert code == 0, err
    assert json.loads((tmp_path / "index/index.json").read_text())["model"] == "me/tiny"


def test_an_encoder_there_and_back(hub, tiny_folder):
    push_folder(tiny_folder, "me/plain", private=False)
    assert not hub.created["me/plain"]["private"]
    for name in ("me/plain", "me/plain@v1"):
        hub.log.clear()
        plain = open_model(name)
        assert isinstance(plain, Encoder)
        assert plain.name == name
        np.testing.assert_array_equal(plain.encode(TEXTS), Encoder(tiny_folder).encode(TEXTS))
        assert any("/v1" in path for _, path, _ in hub.log) == name.endswith("@v1"), hub.log


def test_fused_models_and_reference_corpora(hub, tiny_folder, tmp_path, sentences):
    def other(texts):
        return np.array([[1.0 + text.count(letter) for letter in "aeiou"] for text in texts])

    fused = RankEncoder([str(tiny_folder), other], sentences, progress=False)
    fused.save(tmp_path / "fused")
    push_folder(tmp_path / "fused", "me/fused")
    loaded = RankEncoder.load("me/fused", [None, other])
    np.testing.assert_array_equal(loaded.encode(TEXTS), fused.encode(TEXTS))
    fused.reference.save(tmp_path / "reference")
    push_folder(tmp_path / "reference", "me/reference")
    reference = Reference.load("me/reference")
    assert reference.sentences == fused.reference.sentences
    np.testing.assert_array_equal(reference.vectors, fused.reference.vectors)
    with pytest.raises(InputError, match="me/fused is a RankEncoder, which cannot be fused"):
        RankEncoder(["me/fused", str(tiny_folder)], sentences)


def test_what_was_pushed_is_found_without_the_hub(hub, tiny_saved, monkeypatch):
    push_folder(tiny_saved, "me/tiny")
    before = RankEncoder.load("me/tiny").encode(TEXTS)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    np.testing.assert_array_equal(RankEncoder.load("me/tiny").encode(TEXTS), before)


def test_a_file_that_was_changed_on_the_hub_is_named(hub, tiny_saved):
    push_folder(tiny_saved, "me/tiny")
    content, large = hub.files["me/tiny", "form.safetensors"]
    hub.files["me/tiny", "form.safetensors"] = (content[:-1] + b"?", large)
    with pytest.raises(InputError, match=r"form.safetensors is damaged"):
        RankEncoder.load("me/tiny")


def test_what_cannot_be_pushed_is_said_in_one_line(hub, run_cli, tiny_saved, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    for given, expected in (
        ([tmp_path / "empty", "me/x"], "is not a saved RankEncoder, reference corpus or encoder"),
        ([tiny_saved, "no name"], "cannot push"),
    ):
        code, _, err = run_cli("push", *given)
        assert (code, err.count("\n")) == (2, 1)
        assert expected in err
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    code, _, err = run_cli("push", tiny_saved, "me/x", "--public")
    assert (code, err.count("\n")) == (2, 1)
    assert "hf_wrong" not in err
    assert not hub.files
