import json
import logging
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from rankencoder.encoders import Encoder
from rankencoder.errors import InputError


def test_every_kind_of_encoder_gives_the_same_unit_vectors(tiny_folder):
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    texts = ["The cat sees the dog.", "A river"]
    expected = model.encode(texts, normalize_embeddings=True)
    static = SimpleNamespace(encode=model.encode)  # as model2vec's StaticModel
    function = lambda t: model.encode(t).tolist()  # noqa: E731
    for source in (str(tiny_folder), tiny_folder, model, model.encode, static, function):
        encoder = Encoder(source)
        vectors = encoder.encode(texts)
        assert vectors.dtype == np.float32
        assert np.allclose(vectors, expected, atol=1e-6)
        assert np.allclose(encoder.encode(texts[0]), expected[0], atol=1e-6)
        assert encoder.dimension == Encoder(source).dimension == expected.shape[1]


def test_a_prompt_is_put_before_every_sentence(tiny_folder):
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    texts = ["The cat sees the dog.", "A river"]
    expected = model.encode(texts, prompt="query: ", normalize_embeddings=True)
    named = f"{tiny_folder}?prompt=query: "
    prompted = [
        Encoder(named),
        Encoder(tiny_folder, prompt="query: "),
        Encoder(model.encode, prompt="query: "),
    ]
    for encoder in prompted:
        assert encoder.prompt == "query: "
        assert np.allclose(encoder.encode(texts), expected, atol=1e-6)
    assert {encoder.name for encoder in prompted[:2]} == {named}
    model[1].include_prompt = False
    without = model.encode(texts, prompt="query: ", normalize_embeddings=True)
    assert not np.allclose(without, expected, atol=1e-3)
    assert np.allclose(Encoder(model, prompt="query: ").encode(texts), without, atol=1e-6)


def test_a_fingerprint_tells_encoders_apart_but_not_machines(tiny_folder, callable_encoder):
    encoder = Encoder(tiny_folder)
    assert encoder.fingerprint() == Encoder(tiny_folder, batch_size=1).fingerprint()
    assert encoder.fingerprint() != Encoder(tiny_folder, prompt="query: ").fingerprint()
    other = Encoder(tiny_folder)
    next(other.model.parameters()).data[0, 0] += 1e-3
    assert encoder.fingerprint() != other.fingerprint()
    elsewhere = Encoder(lambda texts: callable_encoder(texts) * (1 + 1e-7))
    assert Encoder(callable_encoder).fingerprint() == elsewhere.fingerprint()
    assert Encoder(lambda texts: callable_encoder(texts) + 0.1).fingerprint() != elsewhere.fingerprint()


def test_the_environment_is_left_as_it_was(tiny_folder, monkeypatch):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    Encoder(tiny_folder).encode("A cat")
    assert "TOKENIZERS_PARALLELISM" not in os.environ
    level = logging.getLogger("huggingface_hub").level
    with pytest.raises(InputError):
        Encoder("someone/else")
    assert logging.getLogger("huggingface_hub").level == level


def test_hub_names_revisions_and_cache(tiny_folder, tmp_path, monkeypatch):
    """The hub's cache layout, filled by hand: names and revisions resolve without a network."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--someone--tiny"
    shutil.copytree(tiny_folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    (repository / "refs" / "v1").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    expected = Encoder(tiny_folder)(["The cat"])
    for revision in (None, "v1", commit):
        encoder = Encoder("someone/tiny", revision=revision)
        assert encoder.name == "someone/tiny"
        assert torch.equal(encoder(["The cat"]), expected)
    with pytest.raises(InputError, match="cannot load encoder 'someone/tiny'"):
        Encoder("someone/tiny", revision="v2")
    with pytest.raises(InputError, match="cannot load encoder 'someone/else'"):
        Encoder("someone/else")


def test_an_encoders_own_error_is_left_alone():
    def refuses(texts):
        raise ValueError("401: invalid API key")

    with pytest.raises(ValueError, match="401: invalid API key") as caught:
        Encoder(refuses)(["a"])
    assert not isinstance(caught.value, InputError)


def test_tiny_huge_and_half_precision_vectors_become_unit_vectors():
    rows = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    for scaled in (rows * 1e-30, rows * 1e30, rows.bfloat16(), rows.double().tolist()):
        vectors = Encoder(lambda texts, scaled=scaled: scaled)(["a", "b"])
        assert torch.allclose(vectors, torch.tensor([[0.6, 0.8], [1.0, 0.0]]))


def test_devices_that_are_not_there(tiny_folder):
    with pytest.raises(InputError, match="cannot run on device 'abacus'"):
        Encoder(tiny_folder, device="abacus")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="cannot run on device 'cuda'"):
            Encoder(tiny_folder, device="cuda")


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda t: np.ones((len(t) + 1, 3)), "given 2 sentences and returned an array of shape"),
        (lambda t: np.ones(3), "one row per sentence"),
        (lambda t: [["a"]] * len(t), "did not return an array of numbers"),
        (lambda t: [[1, 2], [1]], "did not return an array of numbers"),
        (lambda t: [[1.0, np.nan], [1, 1]], "NaN or infinite vector for 'first'"),
        (lambda t: [[1, 1], [0, 0]], "zero vector for 'second'.*1 of 2 sentences"),
        (lambda t: [[1, 1], [np.inf, 0]], "NaN or infinite vector for 'second'"),
    ],
)
def test_bad_encoders(encode, message):
    with pytest.raises(InputError, match=message):
        Encoder(encode)(["first", "second"])


def test_dimensions_must_not_change():
    encode = lambda t: np.ones((len(t), len(t[0])))  # noqa: E731
    with pytest.raises(InputError, match="returned 2 dimensions, but 1 before"):
        Encoder(encode, batch_size=1)(["a", "ab"])
    encoder = Encoder(encode)
    encoder(["abc"])
    with pytest.raises(InputError, match="returned 1 dimensions, but 3 before"):
        encoder(["a"])


def test_not_an_encoder(tmp_path, tiny_folder):
    with pytest.raises(InputError, match="int is not an encoder"):
        Encoder(3)
    with pytest.raises(InputError, match="is not an encoder: a SentenceTransformer folder has"):
        Encoder(tmp_path)
    shutil.copytree(tiny_folder, tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match="damaged or not an encoder"):
        Encoder(tmp_path / "cut")
    shutil.copytree(tiny_folder, tmp_path / "unpooled")
    shutil.rmtree(tmp_path / "unpooled" / "1_Pooling")
    with pytest.raises(InputError, match="damaged or not an encoder"):
        Encoder(tmp_path / "unpooled")


def test_a_damaged_number_of_layers_does_not_fill_the_memory(tmp_path, tiny_folder):
    folder = shutil.copytree(tiny_folder, tmp_path / "encoder")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 10**8}))
    with pytest.raises(InputError, match="100,000,000 hidden layers, more than any encoder"):
        Encoder(folder)


def test_pickled_weights_are_not_loaded(tmp_path, tiny_folder):
    shutil.copytree(tiny_folder, tmp_path / "pickled")
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    torch.save(model[0].auto_model.state_dict(), tmp_path / "pickled" / "pytorch_model.bin")
    (tmp_path / "pickled" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="cannot load encoder"):
        Encoder(tmp_path / "pickled")


@pytest.mark.parametrize("name", ["tokenizer.json", "1_Pooling/config.json"])
def test_a_file_that_cannot_be_read_is_named(tiny_folder, tmp_path, name):
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    (folder / name).unlink()
    (folder / name).mkdir()  # not even root can read it
    with pytest.raises(InputError, match=f"cannot read .*{name}: Is a directory"):
        Encoder(folder)
