"""Templates: the same ids and vectors by hand, in training, and in plain sentence-transformers."""

import json
import string
import sys

import numpy as np
import pytest
import torch
import warm
from tiny_backbones import (
    BERT,
    CAUSAL,
    KINDS,
    SNCSE,
    TEXTS,
    byte_pairs,
    gpt2_tokenizer,
    llama_tokenizer,
    model_of,
    modernbert_tokenizer,
    roberta_tokenizer,
    tiny_model,
    word_pieces,
)

from rankencoder.errors import InputError
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.backbones.templates import (
    Template,
    check_mask_token,
    mask_pooling,
    prompted_encoder,
    templated_ids,
    templated_tokenizer,
)


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    """For each kind of model: its plain folder, and a SentenceTransformer with a template."""
    made = {}
    for kind, (make_tokenizer, template, full_stop) in KINDS.items():
        folder = tmp_path_factory.mktemp(kind)
        tokenizer = make_tokenizer()
        tokenizer.save_pretrained(folder)
        tiny_model(kind, tokenizer).save_pretrained(folder)
        backbone = load_backbone(str(folder), max_seq_length=64)
        made[kind] = folder, prompted_encoder(backbone, template, full_stop=full_stop).cpu().eval()
    return made


@pytest.fixture(scope="module")
def elsewhere(encoders, tmp_path_factory):
    """What a process that knows nothing of this package makes of the saved models."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for kind, (_, model) in encoders.items():
        length, model.max_seq_length = model.max_seq_length, 40  # the saved one, not one used before
        model.save_pretrained(str(folder / kind))
        model.max_seq_length = length
    code = """
import json, sys
from pathlib import Path
from sentence_transformers import SentenceTransformer
folder, kinds, texts = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
found = {}
for kind in kinds:
    model = SentenceTransformer(str(folder / kind), device="cpu")
    ids = model.preprocess(texts)["input_ids"].tolist()
    vectors = model.encode(texts, batch_size=1).tolist()
    about = {"length": model.max_seq_length, "class": type(model.tokenizer).__name__}
    found[kind] = {"vectors": vectors, "ids": ids, **about}
assert "rankencoder" not in sys.modules
print("found:" + json.dumps(found))
"""
    arguments = [str(folder), json.dumps(list(encoders)), json.dumps([*TEXTS, TEXTS[4] * 4])]
    done = warm.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.split("found:")[1])


def ids_by_hand(kind, folder, text):
    """The ids of a sentence in its template, made with nothing but the backbone's own tokenizer."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    if kind == "distilbert":
        ended = f"{text} ." if text and text[-1] not in string.punctuation else text
        return tokenizer(f'This sentence : " {ended} " means [MASK] .')["input_ids"]
    ended = f"{text}." if text and text[-1] not in ".?\"'" else text
    if kind == "bert":
        return tokenizer(f'This sentence of "{ended}" means[MASK].')["input_ids"]
    if kind in ("roberta", "modernbert"):
        inner = f" {ended} '" if text else " '"
        return tokenizer(f"This sentence : '{inner} means{tokenizer.mask_token}.")["input_ids"]
    pieces = ('This sentence : "', text, '" means in one word:"')
    begin = [0] if kind == "llama" else []
    return begin + [i for piece in pieces for i in tokenizer(piece, add_special_tokens=False)["input_ids"]]


def vector_by_hand(kind, folder, text):
    from transformers import AutoModel

    ids = ids_by_hand(kind, folder, text)
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder)(input_ids=torch.tensor([ids])).last_hidden_state[0]
    mask = {"bert": 4, "distilbert": 4, "roberta": 4, "modernbert": None, "llama": -1, "gpt2": -1}[kind]
    if mask is None:
        mask = modernbert_tokenizer().mask_token_id
    assert mask == -1 or ids.count(mask) == 1
    return states[-1 if mask == -1 else ids.index(mask)].numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_made_by_hand(encoders, elsewhere, kind):
    folder, model = encoders[kind]
    by_hand = np.stack([vector_by_hand(kind, folder, text) for text in TEXTS])
    np.testing.assert_allclose(model.encode(TEXTS, batch_size=1), by_hand, atol=1e-6, rtol=1e-6)
    np.testing.assert_allclose(elsewhere[kind]["vectors"][:-1], by_hand, atol=1e-6, rtol=1e-6)
    assert elsewhere[kind]["class"] in ("TokenizersBackend", "PreTrainedTokenizerFast")


@pytest.mark.parametrize("kind", KINDS)
def test_truncation_cuts_the_sentence_and_never_the_template(encoders, elsewhere, kind):
    folder, model = encoders[kind]
    full = ids_by_hand(kind, folder, TEXTS[4] * 4)
    _, after = KINDS[kind][1].tokens(model.tokenizer)
    end = len(after) + (KINDS[kind][1].has_mask and 1)
    assert len(full) > 40
    assert model.max_seq_length == 64
    assert elsewhere[kind]["length"] == 40
    assert elsewhere[kind]["ids"][-1] == full[: 40 - end] + full[-end:]
    model.max_seq_length = 25
    try:
        assert model.preprocess([TEXTS[4]])["input_ids"].tolist() == [full[: 25 - end] + full[-end:]]
    finally:
        model.max_seq_length = 64


@pytest.mark.parametrize("kind", KINDS)
def test_training_and_export_have_the_same_ids(encoders, kind):
    _, model = encoders[kind]
    make_tokenizer, template, full_stop = KINDS[kind]
    base = make_tokenizer()
    texts = [*TEXTS, " blanks  before and after ", "two\nlines\n", "日本語 ümläut", f"a {base.mask_token} b"]
    templated = templated_tokenizer(base, template, full_stop=full_stop)
    ids = templated(texts)["input_ids"]
    assert model.tokenizer(texts)["input_ids"] == ids
    assert templated_ids(base, texts, template, full_stop=full_stop, max_length=512) == ids
    before, after = template.tokens(base)
    empty = templated("")["input_ids"]
    start = templated("a").sequence_ids().index(0)
    end = len(empty) - start
    assert empty[start - len(before) : start + len(after)] == [*before, *after]
    cut = [[*row[:start], *row[start : len(row) - end][:3], *row[len(row) - end :]] for row in ids]
    assert templated_ids(base, texts, template, max_length=3, full_stop=full_stop) == cut


@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_the_side_of_the_padding_change_nothing(encoders, kind):
    _, model = encoders[kind]
    assert model.tokenizer.padding_side == "right"
    alone = np.stack([model.encode(text) for text in TEXTS])
    np.testing.assert_allclose(model.encode(TEXTS), alone, atol=1e-5)
    if kind == "llama":  # positions are relative
        model.tokenizer.padding_side = "left"
        np.testing.assert_allclose(model.encode(TEXTS), alone, atol=1e-5)
        model.tokenizer.padding_side = "right"


def test_real_bert_ids(shared):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(shared / "backbone")
    assert BERT.tokens(tokenizer) == ([2023, 6251, 1997, 1000], [1000, 2965, 103, 1012])
    whole = [101, 2023, 6251, 1997, 1000, 1000, 2965, 103, 1012, 102]
    assert templated_ids(tokenizer, [""], BERT, max_length=512) == [whole]
    other = Template('This sentence : "', '" means{mask}.')
    assert other.tokens(tokenizer) == ([2023, 6251, 1024, 1000], [1000, 2965, 103, 1012])
    assert SNCSE.tokens(tokenizer) == other.tokens(tokenizer)
    assert len(templated_ids(tokenizer, [""], SNCSE, max_length=512)[0]) == 10
    templated = templated_tokenizer(tokenizer, BERT, full_stop="promptbert")
    for text in TEXTS:
        ended = f"{text}." if text and text[-1] not in ".?\"'" else text
        by_hand = tokenizer(f'This sentence of "{ended}" means[MASK].')["input_ids"]
        assert templated(text)["input_ids"] == by_hand
    assert list(templated("Hi")) == ["input_ids", "attention_mask"]


def test_special_tokens_in_a_sentence_are_text(encoders):
    for kind in ("bert", "roberta", "modernbert", "llama"):
        tokenizer = encoders[kind][1].tokenizer
        special = tokenizer.mask_token or tokenizer.bos_token
        ids = tokenizer(f"a {special} b{special}")["input_ids"]
        assert ids.count(tokenizer.convert_tokens_to_ids(special)) == 1


def test_causal_templates_end_with_their_own_last_token():
    llama, gpt2 = llama_tokenizer(), gpt2_tokenizer()
    before, after = CAUSAL.tokens(llama)
    assert templated_ids(llama, [""], CAUSAL, max_length=512) == [[0, *before, *after]]
    before, after = CAUSAL.tokens(gpt2)
    assert templated_ids(gpt2, [""], CAUSAL, max_length=512) == [[*before, *after]]
    ending = llama_tokenizer(end="<|end|>")
    assert ending("Hi")["input_ids"] == [*llama("Hi")["input_ids"], 1]
    assert templated_tokenizer(ending, CAUSAL, full_stop="none")("Hi") == (
        templated_tokenizer(llama, CAUSAL, full_stop="none")("Hi")
    )
    assert templated_tokenizer(llama, CAUSAL, full_stop="none").pad_token == "<|end|>"


def test_mask_pooling_is_frozen_and_knows_one_word():
    tokenizer = roberta_tokenizer()
    tokenizer.add_tokens(["<MASK>"])
    weights, pooling = mask_pooling(tokenizer, 32)
    assert not any(parameter.requires_grad for parameter in weights.parameters())
    assert weights.emb_layer.weight.nonzero().tolist() == [[tokenizer.mask_token_id, 0]]
    assert pooling.get_embedding_dimension() == 32


def test_padding_is_kept_on_for_mask_templates(encoders):
    assert encoders["modernbert"][1][0].unpad_inputs is False
    assert encoders["llama"][1][0].unpad_inputs is None


def test_no_mask_token():
    with pytest.raises(InputError, match=r"has no mask token, which the method needs"):
        BERT.tokens(gpt2_tokenizer())
    with pytest.raises(InputError, match="has no mask token"):
        check_mask_token(gpt2_tokenizer())
    check_mask_token(word_pieces())


def test_no_room_for_a_sentence(encoders):
    backbone = load_backbone(str(encoders["bert"][0]), max_seq_length=10)
    with pytest.raises(InputError, match="max_seq_length 10 leaves no room"):
        prompted_encoder(backbone, BERT)


def test_a_class_that_transformers_insists_on(tmp_path):
    """Qwen2 is loaded as Qwen2Tokenizer whatever was saved: templates survive that, normalizers do not."""
    from transformers import Qwen2Tokenizer

    tokenizer = Qwen2Tokenizer(**model_of(byte_pairs(["<|endoftext|>"])), model_max_length=64)
    tokenizer.save_pretrained(tmp_path)
    tiny_model("qwen2", tokenizer).save_pretrained(tmp_path)
    prompted_encoder(load_backbone(str(tmp_path)), CAUSAL)
    with pytest.raises(InputError, match="as Qwen2Tokenizer"):
        prompted_encoder(load_backbone(str(tmp_path)), CAUSAL, full_stop="promptbert")


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_that_shares_the_vocabulary_is_the_same_tokenizer(kind):
    from rankencoder.training.backbones.templates import _backend, _plain_state

    tokenizer = KINDS[kind][0]()
    copied = json.loads(_backend(tokenizer, _plain_state(tokenizer)).to_str())
    plain = json.loads(tokenizer.backend_tokenizer.to_str())
    assert copied == {**plain, "truncation": None, "padding": None}
