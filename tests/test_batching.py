import operator
import string
import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loss_oracles import MASKED
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from tokenizers import Tokenizer, normalizers
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import PreTokenizer, Split, Whitespace
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from rankencoder import batching, tokens
from rankencoder.batching import encode_by_length
from rankencoder.encoders import Encoder
from rankencoder.tokens import RaggedTokens, find_tokenizer
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.methods import find_method


@pytest.fixture
def tiny(tiny_folder):
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


def test_a_default_prompt_is_put_before_every_sentence(tiny):
    tiny.prompts, tiny.default_prompt_name = {"query": "the dog "}, "query"
    expected = torch.nn.functional.normalize(torch.from_numpy(tiny.encode(SENTENCES)), dim=1)
    assert torch.allclose(Encoder(tiny, batch_size=4)(SENTENCES), expected, atol=1e-5)


@pytest.mark.parametrize("changed", [{"token_weights": [[1]]}, {"attention_mask": None}])
def test_features_that_are_unknown_are_left_to_the_model(tiny, monkeypatch, changed):
    own = tiny.preprocess
    monkeypatch.setattr(tiny, "preprocess", lambda *a, **k: {**own(*a, **k), **changed})
    assert encode_by_length(tiny, SENTENCES, 4) is None


@pytest.mark.parametrize("section", ["text", "common"])
def test_a_side_of_padding_that_a_model_asks_for_is_left_to_it(tiny, section):
    tiny[0].processing_kwargs = {section: {"padding_side": "left"}}
    assert encode_by_length(tiny, SENTENCES, 4) is None


def test_rows_without_tokens_have_one_that_is_padding(tiny, monkeypatch):
    nothing = RaggedTokens(np.zeros(2, int), {"input_ids": np.zeros(0, int), "attention_mask": 1}, {})
    monkeypatch.setattr(batching, "find_tokenizer", lambda *_: lambda part: nothing)
    ((_, features),) = batching._token_batches(tiny, ["", ""], (4, 100))
    assert features["input_ids"].tolist() == 2 * [[tiny.tokenizer.pad_token_id]]
    assert features["attention_mask"].tolist() == [[0], [0]]


def test_no_thread_is_left_by_an_error(tiny, monkeypatch):
    monkeypatch.setattr(batching, "_TOKENIZED", 3)
    monkeypatch.setattr(type(tiny), "forward", lambda *_: 1 / 0)
    before = set(threading.enumerate())  # some of earlier tests may end at any time
    with pytest.raises(ZeroDivisionError):
        encode_by_length(tiny, SENTENCES, 4)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("modules", [1, 2])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_static_models_read_large_batches(tiny, monkeypatch, modules, threads):
    static = StaticEmbedding(tiny.tokenizer, embedding_dim=6)
    model = SentenceTransformer(modules=[static, Normalize()][:modules], device="cpu")
    texts = ["", *SENTENCES, " ", "the cat " * 5000]
    expected = model.encode(texts)
    monkeypatch.setattr(model, "preprocess", None)
    monkeypatch.setattr(batching, "_torch_threads", lambda: threads)
    for number in (1024, 4, 1):
        monkeypatch.setattr(batching, "_AVERAGED", number)
        np.testing.assert_allclose(encode_by_length(model, texts, 2).numpy(), expected, atol=1e-6)
    model.truncate_dim = 5
    np.testing.assert_allclose(encode_by_length(model, texts, 2).numpy(), expected[:, :5], atol=1e-6)


def test_static_models_in_two_threads_leave_torch_its_threads(tiny, monkeypatch):
    model = SentenceTransformer(modules=[StaticEmbedding(tiny.tokenizer, embedding_dim=6)], device="cpu")
    forward, before = model.forward, torch.get_num_threads()
    both, first_done, used = threading.Barrier(2, timeout=60), threading.Event(), []

    def slow(batch):
        used.append(torch.get_num_threads())
        if threading.current_thread().name == "first":
            started.set()
            both.wait()
        else:  # it began inside the first, and ends after it
            both.wait()
            assert first_done.wait(60)
        return forward(batch)

    monkeypatch.setattr(model, "forward", slow)
    started, found = threading.Event(), []
    torch.set_num_threads(2)
    try:
        encode = partial(Encoder(model), SENTENCES)
        first, second = (threading.Thread(target=encode, name=name) for name in ("first", "second"))
        first.start()
        assert started.wait(60)
        second.start()
        first.join()
        first_done.set()
        second.join()
        new = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        new.start()
        new.join()
        assert (used, found) == ([1, 1], [2])
    finally:
        torch.set_num_threads(before)


def test_static_models_leave_the_other_cores_alone(tiny, monkeypatch):
    """Two threads of torch on two busy cores made them slower than model2vec, by a third."""
    model = SentenceTransformer(modules=[StaticEmbedding(tiny.tokenizer, embedding_dim=6)], device="cpu")
    forward, used, before = model.forward, [], torch.get_num_threads()
    monkeypatch.setattr(
        model, "forward", lambda batch: used.append(torch.get_num_threads()) or forward(batch)
    )
    torch.set_num_threads(2)
    try:
        Encoder(model)(SENTENCES)
        assert (used, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("limit", [10**30, 8192, 128, None])
def test_a_gpu_is_given_tokens_whatever_a_model_reads(limit):
    model = SimpleNamespace(device=torch.device("cuda"), max_seq_length=limit)
    assert batching._limits(model, 32) == (32 * 512, 32 * 512)
    assert batching._limits(model, 1) == (512, 512)


ODD = [
    *("", "   ", "the cat " * 500, "a [MASK] cat", "[SEP]", "[CLS] the [PAD] dog", "http://a.b/c.jpg"),
    *(
        "data.wav",
        "naïve Éclair e\u0301",
        "😀 a dog 👩‍👧",
        "中文句子",
        "a\tcat\nsees\r\n",
        "THE CAT",
        "\x00\u200b\ufeff",
    ),
]


@pytest.fixture
def few(monkeypatch, tiny):
    """Three sentences are many."""
    monkeypatch.setattr(batching, "_TOKENIZED", 3)
    monkeypatch.setattr(tokens, "_AT_ONCE", 2)
    monkeypatch.setattr(tokens, "_SAMPLED", 3)
    monkeypatch.setattr(tokens, "_COPIED", -(-tiny.tokenizer.backend_tokenizer.get_vocab_size() // 3))


def by_core(model, sentences):
    """Whether tokens are found by the core, and those found."""
    find = find_tokenizer(model, sentences)
    return not isinstance(find, partial), written_out(find(sentences))


def written_out(found):
    """The features as lists, as ``preprocess`` returns them."""
    ends = np.cumsum(found.lengths)[:-1]
    arrays = {name: np.broadcast_to(value, sum(found.lengths)) for name, value in found.tokens.items()}
    lists = {name: [row.tolist() for row in np.split(array, ends)] for name, array in arrays.items()}
    return {**found.others, **lists}


def by_model(model, sentences):
    return dict(model.preprocess(sentences, processing_kwargs=tokens._UNPADDED))


def test_the_core_finds_the_tokens_of_many_sentences(tiny, monkeypatch, few):
    expected = tiny.encode(ODD * 2)
    calls, own = [], tiny.preprocess
    monkeypatch.setattr(tiny, "preprocess", lambda texts, **k: calls.append(texts) or own(texts, **k))
    found = encode_by_length(tiny, ODD * 2, 4)
    assert len(calls) == 1  # the sample
    assert not set(calls[0]) & set(ODD[3:])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    calls.clear()
    encode_by_length(tiny, ODD[:2], 4)
    assert calls == [ODD[:2]]


@pytest.mark.parametrize("number", [1, 14, 28])
def test_batches_are_padded_as_the_model_pads_them(tiny, few, number):
    texts, seen = (ODD * 2)[:number], []
    for rows, features in batching._token_batches(tiny, texts, (4, 10**6)):
        expected = tiny.preprocess([texts[row] for row in rows])
        assert features.keys() == expected.keys()
        for name, value in expected.items():
            same = torch.equal if isinstance(value, torch.Tensor) else operator.eq
            assert same(features[name], value)
        seen += rows.tolist()
    assert sorted(seen) == list(range(number))


@pytest.mark.parametrize("name", ["input_ids", "attention_mask", "token_type_ids"])
def test_other_tokens_than_the_cores_are_the_models(tiny, few, monkeypatch, name):
    own = tiny.preprocess

    def different(texts, **options):
        features = own(texts, **options)
        return {**features, name: [[1 - row[0], *row[1:]] for row in features[name]]}

    assert not isinstance(find_tokenizer(tiny, ODD), partial)
    monkeypatch.setattr(tiny, "preprocess", different)
    assert isinstance(find_tokenizer(tiny, ODD), partial)


@pytest.mark.parametrize("length", [5, 64, 10**30])
def test_the_core_cuts_where_the_model_does(tiny, few, length):
    tiny.max_seq_length = 9
    assert max(map(len, by_core(tiny, ODD)[1]["input_ids"])) == 9
    tiny.max_seq_length = length
    used, found = by_core(tiny, ODD)
    assert used
    assert found == by_model(tiny, ODD)
    assert max(map(len, found["input_ids"])) == min(length, 1002)


@given(
    texts=st.lists(st.text(max_size=40) | st.text(string.ascii_letters + " [].,'", max_size=40), min_size=4)
)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_core_finds_the_models_tokens_in_any_text(minilm, monkeypatch, texts):
    monkeypatch.setattr(tokens, "_COPIED", 10**6)
    used, found = by_core(minilm.model, texts)
    assert used
    assert found == by_model(minilm.model, texts)


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("name", ["simcse", "promptbert", "consert"])
def test_the_core_keeps_the_template_of_a_method(masked_models, few, kind, name):
    model = find_method(name)().encoder(load_backbone(str(masked_models[kind])))
    mask = model.tokenizer.mask_token
    texts = [*ODD, f"the {mask} cat", "no full stop", 'he says "it"']
    for length in (20, 48):
        model.max_seq_length = length
        used, found = by_core(model, texts)
        assert used
        assert found == by_model(model, texts)
        if name == "promptbert":
            cut = found["input_ids"][2]
            assert len(cut) == length
            assert model.tokenizer.convert_ids_to_tokens(cut).index(mask) == length - 3
    vectors = encode_by_length(model, texts, 4)
    np.testing.assert_allclose(vectors.numpy(), model.encode(texts), atol=1e-4)


def test_the_models_own_tokenizer_is_left_as_preprocess_leaves_it(tiny, few):
    tiny.encode(["a cat"])
    core = tiny.tokenizer.backend_tokenizer
    padded = core.to_str()
    by_model(tiny, ODD)
    ragged = core.to_str()
    assert padded != ragged
    tiny.encode(["a cat"])
    assert core.to_str() == padded
    encode_by_length(tiny, ODD, 4)
    assert core.to_str() == ragged
    assert tiny.tokenizer.backend_tokenizer is core


@pytest.mark.parametrize(
    "change", [str.upper, str.lower, str.strip, lambda text: text[::-1], lambda text: text[:30]]
)
def test_a_model_that_reads_texts_in_its_own_way_is_let(tiny, monkeypatch, few, change):
    core = tiny.tokenizer.backend_tokenizer  # by default letters are made small, and blanks left out
    core.normalizer, core.pre_tokenizer = normalizers.Sequence([]), Split("", "isolated")
    own = tiny.preprocess
    monkeypatch.setattr(tiny, "preprocess", lambda texts, **k: own([change(text) for text in texts], **k))
    texts = ["a", "b", "c", " The cat "]
    assert by_core(tiny, texts) == (False, by_model(tiny, texts))


def test_special_tokens_are_read_as_the_tokenizer_says(tiny, few):
    for split in (True, False, True):
        tiny.tokenizer.split_special_tokens = split
        used, found = by_core(tiny, ODD)
        assert used
        assert found == by_model(tiny, ODD)
        assert (tiny.tokenizer.mask_token_id in found["input_ids"][3]) != split


@pytest.mark.parametrize(
    "setting", [{"add_special_tokens": False}, {"return_tensors": "pt", "padding": True}]
)
def test_what_a_model_is_told_besides_is_kept(tiny, few, setting, monkeypatch):
    own = tiny.preprocess
    monkeypatch.setattr(
        tiny, "preprocess", lambda texts, **_: own(texts, processing_kwargs={"text": setting})
    )
    assert isinstance(find_tokenizer(tiny, ODD), partial)


def test_a_model_of_images_reads_their_names_as_such(tiny, few):
    texts = ["a cat", "a dog", "a house", "a river", "http://a.b/c.jpg"]
    tiny[0].modality_config = {**tiny[0].modality_config, "image": tiny[0].modality_config["text"]}
    tiny[0].input_formatter.supported_modalities = ["text", "image"]
    for encode in (tiny.encode, lambda texts: encode_by_length(tiny, texts, 4)):
        with pytest.raises(ValueError, match="modalities"):
            encode(texts)


class Words:
    """A part of a tokenizer that is written in Python."""

    def pre_tokenize(self, text):
        text.split(lambda _, part: part.split(" ", "removed"))


def test_a_tokenizer_that_cannot_be_copied(tiny, few):
    tiny.tokenizer.backend_tokenizer.pre_tokenizer = PreTokenizer.custom(Words())
    np.testing.assert_allclose(encode_by_length(tiny, ODD, 4).numpy(), tiny.encode(ODD), atol=1e-5)


def test_a_tokenizer_that_lacks_letters(tiny, few):
    core = Tokenizer(WordLevel({"[PAD]": 0, "cat": 1, "dog": 2}, unk_token="[UNK]"))
    core.pre_tokenizer = Whitespace()
    tiny[0].processor = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]")
    with pytest.raises(Exception, match="UNK"):
        tiny.encode(list(tokens._ODD))
    texts = ["cat", "dog cat", "dog", "cat cat"]
    np.testing.assert_allclose(encode_by_length(tiny, texts, 4).numpy(), tiny.encode(texts), atol=1e-5)


def test_a_tokenizer_without_a_core(tiny, few):
    tiny[0].processor = ByT5Tokenizer(extra_ids=0, model_max_length=64)
    tiny[0].auto_model.resize_token_embeddings(len(tiny.tokenizer))
    assert not by_core(tiny, ODD)[0]
    np.testing.assert_allclose(encode_by_length(tiny, ODD, 4).numpy(), tiny.encode(ODD), atol=1e-5)
