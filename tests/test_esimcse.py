"""ESimCSE's repetitions, slow encoder and queue, against numpy and transformers."""

import random
from collections import Counter
from itertools import groupby
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from loss_oracles import MASKED, cosines_by_hand, info_nce_by_hand, numbers
from scipy.special import logsumexp
from scipy.stats import chisquare

from rankencoder.training.loop.collator import ViewCollator
from rankencoder.training.methods import SimCSE, esimcse
from rankencoder.training.methods.esimcse import ESimCSE, repeat_tokens

WORDS = ("cat", "dog", "river", "house", "old", "warm", "sees", "moves", "here", "and", "it", "is")


def sentences(number):
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(number)]


def head_by_hand(loss, states):
    linear = loss.head[0]
    weight, bias = (p.detach().numpy().astype(np.float64) for p in (linear.weight, linear.bias))
    return np.tanh(states @ weight.T + bias)


def first_states(folder, features, rows):
    """The states of [CLS] by transformers, without dropout."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        states = model(features["input_ids"][rows], attention_mask=features["attention_mask"][rows])
    return states.last_hidden_state[:, 0].numpy().astype(np.float64)


def weights(module):
    return [p.detach().clone() for p in module.parameters()]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


# --- repetitions ---


@given(st.integers(0, 60), st.floats(0, 1), st.integers(0, 9999), st.none() | st.integers(0, 70))
def test_repeated_tokens(length, rate, seed, longest):
    ids = list(range(100, 100 + length))
    repeated = repeat_tokens(ids, rate, random.Random(seed), longest)
    assert ids == list(range(100, 100 + length))
    assert [token for token, _ in groupby(repeated)] == ids  # without the repetitions, as it was
    counts = Counter(repeated)
    assert set(counts.values()) <= {1, 2}
    assert all(counts[token] == 1 for token in (*ids[:1], *ids[-1:]))
    number = len(repeated) - length
    assert number < max(1, min(10, int(rate * length)))
    if longest is not None:
        assert len(repeated) <= max(length, longest)
    assert repeat_tokens(ids, rate, random.Random(seed), longest) == repeated


@pytest.mark.parametrize(("length", "rate", "bound"), [(32, 0.32, 10), (20, 0.32, 6), (64, 0.3, 10)])
def test_every_number_and_place_of_repetitions_is_as_likely(length, rate, bound):
    ids = list(range(length))
    rows = [repeat_tokens(ids, rate, random.Random(row)) for row in range(4000)]
    numbers_ = Counter(len(row) - length for row in rows)
    assert sorted(numbers_) == list(range(bound))
    assert chisquare(list(numbers_.values())).pvalue > 1e-4
    places = Counter(i for row in rows for i, n in Counter(row).items() if n == 2)
    assert sorted(places) == list(range(1, length - 1))
    assert chisquare(list(places.values())).pvalue > 1e-4


def test_nothing_is_repeated_at_rate_zero_or_in_short_texts():
    for row in range(50):
        assert repeat_tokens([1, 2, 3, 4], 0.0, random.Random(row)) == [1, 2, 3, 4]
        assert repeat_tokens([1, 2, 3], 0.32, random.Random(row)) == [1, 2, 3]
        assert repeat_tokens([1, 2], 1.0, random.Random(row)) == [1, 2]


@pytest.mark.parametrize("kind", MASKED)
def test_the_second_view_repeats_tokens_by_the_row(build_loss, kind):
    backbone = build_loss(kind, ESimCSE()).backbone
    texts = sentences(40)
    rows = {"row": list(range(100, 140)), "text": texts}
    plain, repeated = ESimCSE().views(rows, backbone, 32)
    assert [plain, plain] == SimCSE().views(rows, backbone, 32)
    expected = [repeat_tokens(ids, 0.32, random.Random(100 + i)) for i, ids in enumerate(plain)]
    assert repeated == expected
    assert repeated != plain
    assert ESimCSE().views(rows, backbone, 32) == [plain, repeated]
    assert ESimCSE(repetition_rate=0.0).views(rows, backbone, 32) == [plain, plain]
    part = {name: values[7:9] for name, values in rows.items()}
    assert ESimCSE().views(part, backbone, 32)[1] == repeated[7:9]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_view_is_never_longer_than_the_positions(build_loss, kind):
    backbone = build_loss(kind, ESimCSE()).backbone
    rows = [{"row": i, "text": "the old cat sees a warm river " * 30} for i in range(60)]
    for length in (backbone.positions, backbone.positions - 3):
        mask = ViewCollator(ESimCSE(), backbone, length)(rows)["views_attention_mask"]
        assert mask.shape[1] == backbone.positions
        assert mask[:60].sum(dim=1).tolist() == [length] * 60


# --- the loss ---


@pytest.mark.parametrize("kind", MASKED)
def test_the_first_step_is_simcse(build_loss, masked_models, kind):
    made = build_loss(kind, ESimCSE(), sentences(12))
    value = made.loss([made.features]).item()
    z = head_by_hand(made.loss, first_states(masked_models[kind], made.features, slice(None)))
    expected = info_nce_by_hand(cosines_by_hand(z[:12], z[12:]))
    assert expected > 1e-3
    assert value == pytest.approx(expected, rel=1e-3)
    assert made.loss.logged["queue_cosine"] == 0


@given(st.integers(0, 5), st.integers(0, 99))
def test_earlier_sentences_are_negatives_of_the_first_view(queued, seed):
    loss = loss_without_encoder(size=5)
    loss.queue.copy_(numbers(seed, 5, 8))
    loss.queued.fill_(queued)
    z = numbers(seed + 1, 2, 3, 8).requires_grad_()
    value, logged = loss.contrast(z, {})
    a, b = z.detach()
    negatives = loss.queue[5 - queued :]
    logits = np.hstack([cosines_by_hand(a, b), cosines_by_hand(a, negatives)]) / 0.05
    expected = np.mean(logsumexp(logits, axis=1) - np.diagonal(logits))
    assert value.item() == pytest.approx(expected, rel=1e-4, abs=1e-6)
    value.backward()
    assert torch.isfinite(z.grad).all()
    if queued == 5:
        mean = cosines_by_hand(a, negatives).mean()
        assert logged["queue_cosine"].item() == pytest.approx(mean, abs=1e-5)


def loss_without_encoder(size):
    """The loss with nothing but what `contrast` reads."""
    loss = esimcse.ESimCSELoss.__new__(esimcse.ESimCSELoss)
    torch.nn.Module.__init__(loss)
    loss.method = ESimCSE(queue_size=size)
    loss.register_buffer("queue", torch.zeros(size, 8))
    loss.register_buffer("queued", torch.tensor(0))
    return loss.eval()


# --- the queue ---


def test_the_queue_after_three_steps(build_loss, masked_models):
    """Section 5.7 of the specification: rows 33 to 192, of the unrepeated view, without dropout."""
    texts = sentences(192)
    made = build_loss("bert", ESimCSE(momentum=1.0), texts)
    made.loss.train()
    ids, mask, wanted = made.features["input_ids"], made.features["attention_mask"], []
    for step in range(3):
        rows = torch.arange(64) + 64 * step
        both = torch.cat([rows, rows + 192])
        features = {"input_ids": ids[both], "attention_mask": mask[both], "rows": rows}
        before = made.loss.queued.item()
        made.loss([features])
        assert (before, made.loss.queued.item()) == [(0, 64), (64, 128), (128, 160)][step]
        wanted.append(head_by_hand(made.loss, first_states(masked_models["bert"], made.features, rows)))
    expected = np.concatenate(wanted)[32:]
    np.testing.assert_allclose(made.loss.queue.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_the_head_of_the_queue_is_the_one_that_is_trained(build_loss, masked_models):
    made = build_loss("bert", ESimCSE(momentum=1.0, queue_size=4))
    made.loss.train()
    made.loss([made.features])
    with torch.no_grad():
        made.loss.head[0].weight.normal_(std=0.3)
    made.loss([made.features])
    expected = head_by_hand(made.loss, first_states(masked_models["bert"], made.features, slice(4)))
    np.testing.assert_allclose(made.loss.queue.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 9])
def test_queues_of_any_size(build_loss, size):
    made = build_loss("bert", ESimCSE(queue_size=size))
    made.loss.train()
    for step in range(1, 4):
        loss = made.loss([made.features])
        loss.backward()
        assert torch.isfinite(loss)
        assert made.loss.queue.shape == (size, 32)
        assert made.loss.queued.item() == min(size, 4 * step)
        assert made.loss.queue.any(dim=1).sum() == min(size, 4 * step)
    assert not made.loss.queue.requires_grad


# --- the slow encoder ---


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("momentum", [0.0, 0.9, 1.0])
def test_the_slow_encoder_moves_towards_the_other(build_loss, kind, momentum):
    made = build_loss(kind, ESimCSE(momentum=momentum))
    begin = weights(made.model)
    assert same(weights(made.loss.slow), begin)
    optimizer = torch.optim.SGD((p for p in made.loss.parameters() if p.requires_grad), lr=0.5)
    made.loss.train()
    made.loss([made.features]).backward()
    torch.testing.assert_close(weights(made.loss.slow), begin)  # it was the same still
    optimizer.step()
    assert not same(weights(made.model), begin)
    torch.testing.assert_close(weights(made.loss.slow), begin)  # before the step, not after it
    slow, fast = weights(made.loss.slow), weights(made.model)
    made.loss([made.features])
    if momentum == 0:
        assert same(weights(made.loss.slow), fast)
    elif momentum == 1:
        assert same(weights(made.loss.slow), slow)
    expected = [momentum * a + (1 - momentum) * b for a, b in zip(slow, fast, strict=True)]
    torch.testing.assert_close(weights(made.loss.slow), expected)
    assert same(weights(made.model), fast)


def test_the_slow_encoder_is_never_trained(build_loss):
    made = build_loss("bert", ESimCSE())
    loss = made.loss.train()
    made.model.train()
    assert loss.training
    assert not any(module.training for module in loss.slow.frozen.modules())
    loss([made.features]).backward()
    assert not any(p.requires_grad or p.grad is not None for p in loss.slow.parameters())
    assert not {id(p) for p in loss.slow.parameters()} & {id(p) for p in made.model.parameters()}
    assert all(p.grad is not None for p in made.model.parameters() if p.requires_grad)


def test_a_random_beginning_is_that_of_a_new_model(build_loss, masked_models):
    made = build_loss("bert", ESimCSE(momentum_init="random"))
    slow, fast = made.loss.slow.frozen[0].model, made.model[0].model
    assert type(slow) is type(fast)
    for name, weight in slow.named_parameters():
        if name.endswith("weight") and weight.dim() == 2:
            assert not torch.equal(weight, dict(fast.named_parameters())[name])
            assert weight.std().item() == pytest.approx(fast.config.initializer_range, rel=0.15)
    before = weights(slow)
    made.loss.train()
    made.loss([made.features])
    expected = [0.995 * a + 0.005 * b for a, b in zip(before, weights(fast), strict=True)]
    torch.testing.assert_close(weights(slow), expected)
    assert not any(module.training for module in slow.modules())


def test_nothing_moves_outside_training(build_loss):
    made = build_loss("bert", ESimCSE(momentum_init="random"))
    before = {name: value.clone() for name, value in made.loss.state().items()}
    values = {made.loss([made.features]).item() for _ in range(3)}
    assert len(values) == 1
    assert all(torch.equal(value, before[name]) for name, value in made.loss.state().items())


def test_the_state_is_all_that_a_checkpoint_needs(build_loss):
    def steps(made, number, seed):
        made.loss.train()
        optimizer = torch.optim.SGD((p for p in made.loss.parameters() if p.requires_grad), lr=0.1)
        values = []
        torch.manual_seed(seed)
        for _ in range(number):
            optimizer.zero_grad()
            loss = made.loss([made.features])
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        return values

    method = ESimCSE(momentum=0.5, queue_size=10)
    made = build_loss("bert", method)
    steps(made, 3, seed=0)
    trained = {name: p.detach().clone() for name, p in made.loss.named_parameters() if p.requires_grad}
    state = {name: value.clone() for name, value in made.loss.state().items()}
    after = steps(made, 3, seed=1)
    fresh = build_loss("bert", method)
    own = {**dict(fresh.loss.named_parameters()), **fresh.loss.state()}
    with torch.no_grad():
        for name, value in {**trained, **state}.items():
            own[name].copy_(value)
    assert steps(fresh, 3, seed=1) == after
    assert not trained.keys() & state.keys()
    for name, value in made.loss.state().items():
        assert torch.equal(fresh.loss.state()[name], value) or "pooler" in name  # which the backbone has not


# --- settings ---


@pytest.mark.parametrize(
    ("roberta", "large", "expected"),
    [
        (False, False, (64, 3e-5, 0.32, 160)),
        (False, True, (64, 1e-5, 0.32, 160)),
        (True, False, (64, 1e-5, 0.30, 160)),
        (True, True, (64, 1e-5, 0.28, 128)),
    ],
)
def test_the_authors_settings(roberta, large, expected):
    defaults = ESimCSE.defaults(SimpleNamespace(kind="masked", is_roberta=roberta, is_large=large))
    settings = {**ESimCSE().options(), **defaults}
    names = ("batch_size", "learning_rate", "repetition_rate", "queue_size")
    assert tuple(settings[name] for name in names) == expected
    assert (settings["momentum"], settings["momentum_init"], settings["temperature"]) == (
        0.995,
        "pretrained",
        0.05,
    )
    assert not ESimCSE.graphs
    assert ESimCSE.kinds == ("masked",)
