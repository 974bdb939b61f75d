import inspect
import re

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from tiny_backbones import word_pieces
from transformers import AutoConfig, AutoModel

from rankencoder.distillation.student_sources import drop_layers, spread
from rankencoder.errors import InputError

SIZE = {"hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 2, "intermediate_size": 64}
CAUSAL = {**SIZE, "num_key_value_heads": 2, "head_dim": 16}
WINDOWS = ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]
SIZES = {
    "bert": SIZE,
    "roberta": SIZE,
    "mpnet": SIZE,
    "distilbert": {"dim": 32, "n_layers": 6, "n_heads": 2, "hidden_dim": 64},
    "modernbert": {**SIZE, "local_attention": 4, "layer_types": [*WINDOWS, "sliding_attention"]},
    "gemma3_text": {**CAUSAL, "sliding_window": 4, "layer_types": [*WINDOWS, "sliding_attention"]},
    "llama": CAUSAL,
    "gpt2": {"n_embd": 32, "n_layer": 6, "n_head": 2},
    "t5": {"d_model": 32, "num_layers": 6, "num_heads": 2, "d_ff": 64, "d_kv": 16},
}
DEPTHS = {"num_hidden_layers", "n_layers", "n_layer", "num_layers"}
KEPT = [0, 3, 5]
SENTENCES = ["A cat sleeps on the warm windowsill", "Hi!", "Is it here? The river moves the old house"]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Makes a random encoder of six layers."""

    def made(kind):
        folder = tmp_path_factory.mktemp(kind)
        tokenizer = word_pieces()
        tokenizer.save_pretrained(folder)
        ids = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
        config = AutoConfig.for_model(
            kind, vocab_size=len(tokenizer), initializer_range=0.5, **SIZES[kind], **ids
        )
        torch.manual_seed(0)
        AutoModel.from_config(config).save_pretrained(folder)
        return SentenceTransformer(modules=[Transformer(str(folder)), Pooling(32)], device="cpu")

    return made


def hand_built(encoder):
    """The vectors of a new model that was given the weights of three layers."""
    model = encoder.transformers_model
    settings = model.config.to_dict() | dict.fromkeys(DEPTHS & model.config.to_dict().keys(), 3)
    if "layer_types" in settings:
        settings["layer_types"] = [settings["layer_types"][layer] for layer in KEPT]
    built = type(model)(type(model.config).from_dict(settings)).eval()
    weights = {}
    for name, value in model.state_dict().items():
        found = re.search(r"^(.*?\b(?:layer|layers|block|h)\.)(\d+)(\..*)$", name)
        if found is None:
            weights[name] = value
        elif int(found[2]) in KEPT:
            weights[f"{found[1]}{KEPT.index(int(found[2]))}{found[3]}"] = value
    built.load_state_dict(weights)
    read = inspect.signature(built.forward).parameters
    rows = []
    for text in SENTENCES:
        tokens = {
            name: value
            for name, value in encoder.tokenizer([text], return_tensors="pt").items()
            if name in read
        }
        with torch.inference_mode():
            rows.append(built(**tokens).last_hidden_state[0].mean(dim=0))
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("kind", SIZES)
def test_a_student_is_a_model_of_these_layers(make, tmp_path, kind):
    encoder = make(kind)
    before = encoder.encode(SENTENCES)
    student = drop_layers(encoder, 3)
    found = student.encode(SENTENCES)
    np.testing.assert_allclose(found, hand_built(encoder), atol=1e-4)
    assert not np.allclose(found, before, atol=1e-2)
    np.testing.assert_array_equal(encoder.encode(SENTENCES), before)  # the encoder is left as it was
    assert student.transformers_model.config.num_hidden_layers == 3
    student.save_pretrained(str(tmp_path))
    loaded = SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=False)
    np.testing.assert_allclose(loaded.encode(SENTENCES), found, atol=1e-5)
    assert sum(p.numel() for p in loaded.parameters()) == sum(p.numel() for p in student.parameters())


@pytest.mark.parametrize(("total", "layers"), [(2, 1), (6, 1), (6, 2), (6, 5), (12, 6), (24, 7), (28, 27)])
def test_layers_are_spread_evenly(total, layers):
    kept = spread(total, layers)
    assert len(set(kept)) == layers
    assert kept[0] == 0
    if layers > 1:
        assert kept[-1] == total - 1
        gaps = np.diff(kept)
        assert gaps.max() - gaps.min() <= 1


def test_minilm_keeps_three_of_six_layers(minilm):
    student = drop_layers(minilm.model, 3)
    texts = ["A cat sleeps on the windowsill.", "A kitten naps by the window.", "The stock market fell."]
    vectors = student.encode(texts)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    sizes = [
        sum(p.numel() for p in m.transformers_model.encoder.parameters()) for m in (minilm.model, student)
    ]
    assert sizes[0] == 2 * sizes[1]


@pytest.mark.parametrize("layers", [-1, 0, 2, 3])
def test_a_number_of_layers_that_makes_no_student(tiny_folder, layers):
    encoder = SentenceTransformer(str(tiny_folder), device="cpu")
    with pytest.raises(InputError, match=f"cannot keep {layers} of 2 layers"):
        drop_layers(encoder, layers)


def test_an_encoder_without_layers():
    static = SentenceTransformer(modules=[StaticEmbedding(word_pieces(), embedding_dim=4)], device="cpu")
    with pytest.raises(InputError, match="no transformer module"):
        drop_layers(static, 1)


def test_layers_that_share_their_weights(tmp_path):
    tokenizer = word_pieces()
    tokenizer.save_pretrained(tmp_path)
    config = AutoConfig.for_model("albert", vocab_size=len(tokenizer), embedding_size=8, **SIZE)
    AutoModel.from_config(config).save_pretrained(tmp_path)
    encoder = SentenceTransformer(modules=[Transformer(str(tmp_path)), Pooling(32)], device="cpu")
    with pytest.raises(InputError, match="AlbertModel has no list of 6 layers"):
        drop_layers(encoder, 3)
