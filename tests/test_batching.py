import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rankencoder import batching
from rankencoder.batching import encode_by_length


@pytest.fixture
def tiny(tiny_folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(tiny_folder))


SENTENCES = ["a cat", "the cat sees the dog and the old house " * 3, "a", "a river moves"] * 5


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_vectors_are_those_of_sentence_transformers(tiny, batch_size):
    found = encode_by_length(tiny, SENTENCES, batch_size)
    assert np.allclose(found.numpy(), tiny.encode(SENTENCES), atol=1e-5)


def test_parts_are_put_together(tiny, monkeypatch):
    monkeypatch.setattr(batching, "_TOKENIZED", 3)
    monkeypatch.setattr(batching, "_CACHED", 8)
    assert np.allclose(encode_by_length(tiny, SENTENCES, 32).numpy(), tiny.encode(SENTENCES), atol=1e-5)


def test_shorter_vectors_where_asked_for(tiny):
    tiny.truncate_dim = 5
    found = encode_by_length(tiny, SENTENCES, 4).numpy()
    assert found.shape == (len(SENTENCES), 5)
    assert np.allclose(found, tiny.encode(SENTENCES), atol=1e-5)


def test_models_that_want_otherwise_are_left_alone(tiny):
    assert encode_by_length(tiny, [], 4) is None
    tiny.tokenizer.padding_side = "left"
    assert encode_by_length(tiny, SENTENCES, 4) is None
    tiny.tokenizer.padding_side = "right"
    tiny.default_prompt_name = "query"
    assert encode_by_length(tiny, SENTENCES, 4) is None


def test_features_that_are_unknown_are_left_to_the_model(tiny, monkeypatch):
    own = tiny.preprocess
    monkeypatch.setattr(tiny, "preprocess", lambda *a, **k: {**own(*a, **k), "token_weights": [[1]]})
    assert encode_by_length(tiny, SENTENCES, 4) is None


@pytest.mark.parametrize("section", ["text", "common"])
def test_a_side_of_padding_that_a_model_asks_for_is_left_to_it(tiny, section):
    tiny[0].processing_kwargs = {section: {"padding_side": "left"}}
    assert encode_by_length(tiny, SENTENCES, 4) is None


def test_rows_without_tokens_have_one_that_is_padding():
    assert batching._padded([[], []], 7).tolist() == [[7], [7]]


def test_no_thread_is_left_by_an_error(tiny, monkeypatch):
    monkeypatch.setattr(batching, "_TOKENIZED", 3)
    monkeypatch.setattr(type(tiny), "forward", lambda *_: 1 / 0)
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        encode_by_length(tiny, SENTENCES, 4)
    assert threading.active_count() == before


@pytest.mark.parametrize("limit", [10**30, 8192, 128, None])
def test_a_gpu_is_given_tokens_whatever_a_model_reads(limit):
    model = SimpleNamespace(device=torch.device("cuda"), max_seq_length=limit)
    assert batching._limits(model, 32) == (32 * 512, 32 * 512)
    assert batching._limits(model, 1) == (512, 512)
