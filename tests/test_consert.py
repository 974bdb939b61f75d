"""ConSERT's augmentations, loss and encoder, against numpy, autograd and the specification's numbers."""

import json
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from loss_oracles import MASKED, SENTENCES, cosines_by_hand, numbers
from scipy.special import logsumexp
from scipy.stats import chisquare

from rankencoder.errors import InputError
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.methods.consert import (
    ConSERT,
    feature_cutoff,
    nt_xent,
    number_dropout,
    positions_of,
    shuffle,
    token_cutoff,
)

CHANGES = {"token-cutoff": token_cutoff, "feature-cutoff": feature_cutoff, "dropout": number_dropout}
NAMES = ("none", "shuffle", *CHANGES)
INPUTS = ("input_ids", "attention_mask")


def mask_of(lengths, width=None):
    return (torch.arange(width or max(lengths)) < torch.tensor(lengths)[:, None]).long()


def inputs_of(made):
    return {name: made.features[name] for name in INPUTS}


def nt_xent_by_hand(a, b, temperature):
    rows = np.concatenate([a, b])
    logits = cosines_by_hand(rows, rows) / temperature
    n, losses = len(a), []
    for i in range(2 * n):
        others = [j for j in range(2 * n) if j != i]
        losses.append(logsumexp(logits[i, others]) - logits[i, (i + n) % (2 * n)])
    return np.mean(losses[:n]) + np.mean(losses[n:])


# --- the loss ---


def test_nt_xent_of_the_specification():
    a, b = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.8, 0.6], [0.6, 0.8]])
    assert nt_xent(a, b, 0.1).item() == pytest.approx(1.9336035, abs=1e-6)
    assert nt_xent(3 * a, b / 7, 0.1).item() == pytest.approx(1.9336035, abs=1e-6)


@given(st.integers(1, 9), st.integers(0, 99), st.floats(0.05, 2))
def test_nt_xent_is_that_of_numpy(n, seed, temperature):
    a, b = numbers(seed, 2, n, 5)
    value = nt_xent(a, b, temperature).item()
    assert value == pytest.approx(nt_xent_by_hand(a, b, temperature), rel=1e-4, abs=1e-5)


def test_the_loss_is_weighted_and_logged(build_loss):
    loss = build_loss("bert", ConSERT(loss_weight=0.3, temperature=0.2)).loss
    z = numbers(3, 2, 6, 32)
    value, logged = loss.contrast(z, {})
    assert value.item() == pytest.approx(0.3 * nt_xent_by_hand(z[0], z[1], 0.2), rel=1e-5)
    cosines = cosines_by_hand(z[0], z[1])
    assert logged["positive_cosine"].item() == pytest.approx(np.diagonal(cosines).mean(), abs=1e-6)
    assert logged["negative_cosine"].item() == pytest.approx(cosines[~np.eye(6, dtype=bool)].mean(), abs=1e-6)


# --- the augmentations ---

batches = st.lists(st.integers(1, 12), min_size=1, max_size=5)
rates = st.sampled_from([0.0, 0.07, 0.2, 0.29, 0.5, 0.7, 1.0]) | st.floats(0, 1)


@given(batches, st.sampled_from([None, 0, 1]), st.integers(0, 999))
def test_shuffled_positions_are_the_same_ones(lengths, padding, seed):
    torch.manual_seed(seed)
    mask = mask_of(lengths, 12)
    own = positions_of(mask, padding)
    before = own.clone()
    shuffled = shuffle(own, mask)
    assert torch.equal(own, before)
    for row, kept, n in zip(shuffled.tolist(), own.tolist(), lengths, strict=True):
        assert sorted(row[:n]) == kept[:n]
        assert row[n:] == kept[n:]


def test_every_order_of_positions_is_as_likely():
    torch.manual_seed(0)
    mask = mask_of([3] * 6000, 4)
    found = Counter(map(tuple, shuffle(positions_of(mask, None), mask).tolist()))
    assert len(found) == 6
    assert chisquare(list(found.values())).pvalue > 1e-4


@given(batches, rates, st.integers(0, 999))
@example([100], 0.29, 0)  # int(0.29 * 100) is 28
@example([10], 0.7, 0)  # and int(0.7 * 10) is 7, though 0.7 is a little less
def test_token_cutoff_zeroes_whole_tokens(lengths, rate, seed):
    torch.manual_seed(seed)
    mask = mask_of(lengths, max(lengths) + 2)
    embeddings = torch.rand(*mask.shape, 4) + 1
    cut = token_cutoff(embeddings, mask, rate)
    zeroed = (cut == 0).all(dim=2)
    assert zeroed.sum(dim=1).tolist() == [int(rate * n) for n in lengths]
    assert not zeroed[mask == 0].any()
    assert torch.equal(cut[~zeroed], embeddings[~zeroed])


@given(batches, st.integers(1, 40), rates, st.integers(0, 999))
def test_feature_cutoff_zeroes_whole_features(lengths, features, rate, seed):
    torch.manual_seed(seed)
    mask = mask_of(lengths)
    embeddings = torch.rand(*mask.shape, features) + 1
    cut = feature_cutoff(embeddings, mask, rate)
    zeroed = (cut == 0).all(dim=1)
    assert zeroed.sum(dim=1).tolist() == [int(rate * features)] * len(lengths)
    assert torch.equal(cut, embeddings * ~zeroed[:, None])


@given(batches, rates, st.integers(0, 999))
def test_dropout_zeroes_numbers_of_tokens(lengths, rate, seed):
    torch.manual_seed(seed)
    mask = mask_of(lengths, max(lengths) + 2)
    embeddings = torch.rand(*mask.shape, 7) + 1
    dropped = number_dropout(embeddings, mask, rate)
    zeroed = dropped == 0
    assert zeroed.sum(dim=(1, 2)).tolist() == [int(rate * n * 7) for n in lengths]
    assert not zeroed[mask == 0].any()
    assert torch.equal(dropped[~zeroed], embeddings[~zeroed])  # not made larger


def test_the_features_of_bert_that_are_cut_off():
    cut = feature_cutoff(torch.ones(3, 2, 768), torch.ones(3, 2), 0.2)
    assert (cut == 0).sum(dim=2).tolist() == [[153, 153]] * 3
    assert not torch.equal(cut[0], cut[1])


@pytest.mark.parametrize("name", CHANGES)
def test_every_place_is_as_likely(name):
    torch.manual_seed(1)
    mask = mask_of([5] * 4000)
    zeroed = (CHANGES[name](torch.ones(4000, 5, 6), mask, 0.4) == 0).sum(dim=0)
    if name == "token-cutoff":
        frequencies = zeroed[:, 0]  # first and last are [CLS] and [SEP]
    else:
        frequencies = zeroed[0] if name == "feature-cutoff" else zeroed.flatten()
    assert chisquare(frequencies.numpy()).pvalue > 1e-4


@pytest.mark.parametrize("name", CHANGES)
def test_rate_zero_changes_nothing(name):
    embeddings = numbers(0, 2, 5, 6)
    assert torch.equal(CHANGES[name](embeddings, mask_of([5, 3]), 0.0), embeddings)


def test_gradients_pass_what_is_left_alone():
    embeddings = torch.ones(2, 5, 6, requires_grad=True)
    for change in CHANGES.values():
        changed = change(embeddings, mask_of([5, 3]), 0.5)
        (gradient,) = torch.autograd.grad(changed.sum(), embeddings)
        assert torch.equal(gradient, changed)


# --- in the model ---


@pytest.mark.parametrize("kind", MASKED)
def test_plain_views_are_means_of_the_last_layer(build_loss, masked_models, kind):
    from transformers import AutoModel

    made = build_loss(kind, ConSERT(first="none", second="none"))
    inputs = inputs_of(made)
    with torch.no_grad():
        vectors = made.loss.encode(inputs, 4)
        states = AutoModel.from_pretrained(masked_models[kind]).eval()(**inputs).last_hidden_state
    mask = inputs["attention_mask"].bool()
    assert not mask.all()
    expected = torch.stack([row[seen].mean(dim=0) for row, seen in zip(states, mask, strict=True)])
    torch.testing.assert_close(vectors, torch.stack(expected.chunk(2), dim=1), rtol=1e-4, atol=1e-5)
    value = made.loss([made.features]).item()
    by_hand = nt_xent_by_hand(expected[:4].numpy(), expected[4:].numpy(), 0.1)
    assert value == pytest.approx(0.15 * by_hand, rel=1e-4)
    assert made.loss.logged["positive_cosine"].item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("kind", MASKED)
def test_what_reaches_the_layers(build_loss, monkeypatch, kind):
    """View 1 with features cut off, view 2 with other positions; ids and mask are as they were."""
    made = build_loss(kind, ConSERT(cutoff_rate=0.4))
    body = made.backbone.module.model
    inputs = inputs_of(made)
    before = {name: value.clone() for name, value in inputs.items()}
    seen = {}
    forward = body.forward
    monkeypatch.setattr(body, "forward", lambda **given: seen.update(given) or forward(**given))
    body.embeddings.register_forward_hook(lambda module, args, output: seen.update(plain=output))
    layer = next(module for name, module in body.named_modules() if name.endswith(("layer.0", "layers.0")))
    layer.register_forward_pre_hook(lambda module, args: seen.update(entered=args[0]))
    made.loss.encode(inputs, 4)
    assert all(torch.equal(inputs[name], before[name]) for name in INPUTS)
    assert all(torch.equal(seen[name], before[name]) for name in INPUTS)
    zeroed = (seen["entered"] == 0).all(dim=1)
    assert zeroed.sum(dim=1).tolist() == [12] * 4 + [0] * 4
    torch.testing.assert_close(seen["entered"], seen["plain"] * ~zeroed[:, None])
    mask = inputs["attention_mask"]
    own = torch.arange(mask.shape[1]).expand_as(mask)
    if kind == "roberta":
        own = body.embeddings.create_position_ids_from_input_ids(inputs["input_ids"], 1)
    assert torch.equal(seen["position_ids"][:4], own[:4])
    assert not torch.equal(seen["position_ids"][4:], own[4:])
    assert torch.equal((seen["position_ids"] * mask).sort().values, (own * mask).sort().values)
    assert torch.equal(seen["position_ids"][mask == 0], own[mask == 0])


@pytest.mark.parametrize("kind", MASKED)
def test_shuffling_is_another_order_of_positions(build_loss, masked_models, kind):
    from transformers import AutoModel

    made = build_loss(kind, ConSERT(first="none"))
    inputs = inputs_of(made)
    torch.manual_seed(5)
    with torch.no_grad():
        vectors = made.loss.encode(inputs, 4)
        torch.manual_seed(5)
        mask = inputs["attention_mask"][4:]
        positions = shuffle(positions_of(mask, 1 if kind == "roberta" else None), mask)
        oracle = AutoModel.from_pretrained(masked_models[kind]).eval()
        states = oracle(
            inputs["input_ids"][4:], attention_mask=mask, position_ids=positions
        ).last_hidden_state
    expected = torch.stack([row[seen].mean(dim=0) for row, seen in zip(states, mask.bool(), strict=True)])
    torch.testing.assert_close(vectors[:, 1], expected, rtol=1e-4, atol=1e-5)
    assert ((vectors[:, 0] - vectors[:, 1]).abs().amax(dim=1) > 1e-3).all()


@pytest.mark.parametrize("name", NAMES)
def test_each_augmentation_trains_and_leaves_no_hook(build_loss, name):
    made = build_loss("bert", ConSERT(first=name, second="none"))
    embeddings = made.backbone.module.model.embeddings
    torch.manual_seed(0)
    loss = made.loss([made.features])
    loss.backward()
    assert not embeddings._forward_hooks
    trained = {key: p for key, p in made.model.named_parameters() if p.requires_grad}
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in trained.values())
    assert embeddings.word_embeddings.weight.grad.any()
    assert trained.keys() == {
        key for key, _ in made.model.named_parameters() if "pooler" not in key and "layer_weights" not in key
    }
    torch.manual_seed(0)
    assert made.loss([made.features]).item() == loss.item()
    positive = made.loss.logged["positive_cosine"].item()
    assert positive == pytest.approx(1, abs=1e-6) if name == "none" else positive < 0.999


def test_a_failed_pass_leaves_no_hook(build_loss):
    made = build_loss("bert", ConSERT())
    inputs = {**inputs_of(made), "input_ids": torch.full((8, 12), 10**6)}
    with pytest.raises((IndexError, RuntimeError)):
        made.loss.encode(inputs, 4)
    assert not made.backbone.module.model.embeddings._forward_hooks


def test_there_is_no_dropout_and_no_head(masked_models, build_loss):
    assert ConSERT.dropout == 0.0
    backbone = load_backbone(str(masked_models["bert"]), dropout=ConSERT.dropout)
    method = ConSERT(first="none", second="none")
    loss = method.loss(method.encoder(backbone), backbone).train()
    made = build_loss("bert", method)
    torch.testing.assert_close(loss.encode(inputs_of(made), 4), made.loss.encode(inputs_of(made), 4))
    assert not list(loss.head.parameters())


def test_a_large_model_keeps_its_dropout(backbone):
    """In the run itself: the plan reads the backbone once more, with its own dropout."""
    from rankencoder.training.config import read_given
    from rankencoder.training.plan import make_plan

    for own, expected in ((False, 0.0), (True, 0.1)):
        settings = {"backbone": str(backbone), "method": "consert", "options": {"own_dropout": own}}
        plan = make_plan(read_given(settings))
        model = plan.backbones.fresh(plan.trainings[0].method).module.model
        assert {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)} == {expected}


# --- the encoder ---


@pytest.mark.parametrize("kind", MASKED)
def test_the_encoder_is_the_mean_of_two_layers(build_loss, masked_models, tmp_path, kind):
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel

    made = build_loss(kind, ConSERT())
    made.model.save_pretrained(str(tmp_path))
    types = [module["type"] for module in json.loads((tmp_path / "modules.json").read_text())]
    assert len(types) == 3
    assert all(name.startswith("sentence_transformers.") for name in types)
    loaded = SentenceTransformer(str(tmp_path), device="cpu")
    oracle = AutoModel.from_pretrained(masked_models[kind]).eval()
    for text, vector, again in zip(
        SENTENCES, made.model.encode(SENTENCES), loaded.encode(SENTENCES), strict=True
    ):
        ids = torch.tensor([made.backbone.tokenizer(text)["input_ids"]])
        with torch.no_grad():
            layers = oracle(ids, output_hidden_states=True).hidden_states
        assert len(layers) == 3
        expected = np.mean([layers[1][0].numpy(), layers[2][0].numpy()], axis=(0, 1))
        np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-5)


def test_views_are_the_sentence_twice(build_loss):
    made = build_loss("bert", ConSERT())
    rows = {"row": [0, 1], "text": ["a cat", "the old dog " * 30]}
    first, second = ConSERT().views(rows, made.backbone, 16)
    assert first == second
    assert first[0] == made.backbone.tokenizer("a cat")["input_ids"]
    assert len(first[1]) == 16


# --- settings ---


def test_the_authors_settings():
    defaults = ConSERT.defaults(SimpleNamespace(kind="masked", is_roberta=False, is_large=False))
    assert defaults == ConSERT.defaults(SimpleNamespace(kind="masked", is_roberta=True, is_large=False))
    large = ConSERT.defaults(SimpleNamespace(kind="masked", is_roberta=False, is_large=True))
    assert large == {**defaults, "epochs": 25, "first": "none", "own_dropout": True}
    assert (defaults["batch_size"], defaults["learning_rate"], defaults["max_length"]) == (96, 5e-7, 64)
    assert (defaults["weight_decay"], defaults["warmup_steps"], defaults["epochs"]) == (0.01, 0.1, 10)
    assert (defaults["eval_steps"], defaults["patience"]) == (200, 10)
    assert ConSERT().options() == {
        "temperature": 0.1,
        "first": "feature-cutoff",
        "second": "shuffle",
        "cutoff_rate": 0.2,
        "dropout_rate": 0.2,
        "loss_weight": 0.15,
        "own_dropout": False,
    }


def test_backbones_that_cannot_be_augmented(masked_models):
    backbone = load_backbone(str(masked_models["bert"]))
    ConSERT().check(backbone)
    forward = backbone.module.model.forward
    backbone.module.model.forward = lambda input_ids, attention_mask: None
    with pytest.raises(InputError, match="'consert' cannot train '.*': it has no embeddings to augment"):
        ConSERT().check(backbone)
    backbone.module.model.forward = forward
    del backbone.module.model.embeddings
    with pytest.raises(InputError, match="'consert' cannot train"):
        ConSERT().check(backbone)
