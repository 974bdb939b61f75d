"""DCLR's weights, noise and losses, against numpy, torch's autograd and the specification's numbers."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from loss_oracles import SENTENCES, cosines_by_hand, info_nce_by_hand, numbers
from scipy.special import logsumexp
from torch.nn import functional

from rankencoder.errors import InputError
from rankencoder.training.methods.dclr import DCLR, ascend, authors_dclr_loss, dclr_loss, kept_negatives
from rankencoder.training.methods.method import absolute_options, make_method
from rankencoder.training.methods.simcse import SimCSE

# section 6.6 of the specification
LOGITS = torch.tensor([[18, 4, 0, 1], [3, 17, 0.5, 0]])
KEPT = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]]).bool()

logits_of = st.integers(1, 5).flatmap(
    lambda n: st.integers(n, n + 4).flatmap(lambda m: arrays(np.float64, (n, m), elements=st.floats(-8, 8)))
)


def kept_of(logits, seed):
    kept = np.random.default_rng(seed).random(logits.shape) < 0.6
    kept[:, len(kept) :] = True
    np.fill_diagonal(kept, True)
    return kept


def traits(roberta=False, large=False):
    return SimpleNamespace(kind="masked", is_roberta=roberta, is_large=large)


# --- the losses ---


def test_the_authors_loss_of_the_specification():
    assert authors_dclr_loss(LOGITS.double(), KEPT).item() == pytest.approx(2.532607e-7, rel=1e-6)
    assert authors_dclr_loss(LOGITS, KEPT).item() == pytest.approx(2.532607e-7, rel=1e-5)


@given(logits=logits_of, seed=st.integers(0, 9))
def test_losses_by_hand(logits, seed):
    kept = kept_of(logits, seed)
    tensors = torch.from_numpy(logits), torch.from_numpy(kept)
    sums = logsumexp(np.where(kept, logits, -np.inf), axis=1)
    expected = np.mean(sums - np.diagonal(logits))
    assert dclr_loss(*tensors).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)

    weighted = logits * kept
    if logits.shape[1] > 1:
        shares = np.exp(weighted - logsumexp(weighted, axis=1, keepdims=True))
        right = np.eye(*logits.shape, dtype=bool)
        expected = -np.mean(np.where(right, np.log(shares), np.log1p(-shares)))
        assert authors_dclr_loss(*tensors).item() == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(logits=logits_of, seed=st.integers(0, 9))
def test_the_authors_loss_has_the_right_gradient(logits, seed):
    kept = torch.from_numpy(kept_of(logits, seed))
    tensor = torch.from_numpy(logits).requires_grad_()
    (gradient,) = torch.autograd.grad(authors_dclr_loss(tensor, kept), tensor)
    if logits.shape[1] == 1:
        assert not gradient.any()
        return
    shares = (tensor * kept).softmax(dim=1)
    naive = functional.binary_cross_entropy(shares, torch.eye(*logits.shape).double())
    (expected,) = torch.autograd.grad(naive, tensor)
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("function", [dclr_loss, authors_dclr_loss])
def test_extreme_logits_have_finite_gradients(function):
    logits = torch.tensor([[-20.0, 20, 20, 3], [20, -20, -20, -20]], requires_grad=True)
    loss = function(logits, torch.ones(2, 4).bool())
    loss.backward()
    assert loss > 5
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 0] < 0
    assert logits.grad[1, 0] > 0


def test_a_lone_sentence_without_noise_has_no_loss():
    for function in (dclr_loss, authors_dclr_loss):
        logits = torch.tensor([[20.0]], requires_grad=True)
        loss = function(logits, torch.tensor([[True]]))
        loss.backward()
        assert loss.item() == 0
        assert logits.grad.item() == 0


# --- weights ---


@given(seed=st.integers(0, 1000), threshold=st.floats(-0.9, 0.95))
def test_sentences_that_the_other_encoder_finds_similar_are_no_negatives(seed, threshold):
    vectors = numbers(seed, 7, 3)
    cosines = cosines_by_hand(vectors, vectors)
    expected = (cosines <= threshold) | np.eye(7, dtype=bool)
    clear = (np.abs(cosines - threshold) > 1e-5) | np.eye(7, dtype=bool)
    found = kept_negatives(functional.normalize(vectors, dim=1), threshold).numpy()
    assert (found == expected)[clear].all()


# --- noise ---


def loss_with_noise(noise, first, second, temperature):
    """The unweighted loss, by torch's own cosine."""
    columns = torch.cat([second, noise])
    cosines = functional.cosine_similarity(first[:, None], columns[None], dim=-1)
    return functional.cross_entropy(cosines / temperature, torch.arange(len(first)))


def ascend_by_autograd(noise, first, second, temperature, steps, size):
    for _ in range(steps):
        noise = noise.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(loss_with_noise(noise, first, second, temperature), noise)
        noise = noise + size * torch.nan_to_num(gradient / gradient.norm(dim=1, keepdim=True))
    return noise.detach()


def cosine_tensor(first, second):
    return torch.from_numpy(cosines_by_hand(first, second)).float()


@given(seed=st.integers(0, 1000), steps=st.integers(1, 4), size=st.sampled_from([1e-3, 0.1, 2.0]))
def test_noise_ascends_as_autograd_says(seed, steps, size):
    first, noise = numbers(seed, 5, 8), numbers(seed + 1, 7, 8)
    second = first + numbers(seed + 2, 5, 8)
    found = ascend(noise, first, cosine_tensor(first, second), 0.1, steps, size)
    exact = (tensor.double() for tensor in (noise, first, second))
    expected = ascend_by_autograd(*exact, 0.1, steps, size)
    assert (expected - noise).abs().max() > size / 10
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-3 * size + 1e-6)


@given(seed=st.integers(0, 1000))
def test_noise_that_ascended_is_harder(seed):
    first, noise = numbers(seed, 6, 16), numbers(seed + 1, 9, 16)
    second = first + numbers(seed + 2, 6, 16)
    moved = ascend(noise, first, cosine_tensor(first, second), 0.05, 4, 1e-3)
    doubles = [tensor.double() for tensor in (noise, moved, first, second)]
    before, after = (loss_with_noise(rows, *doubles[2:], 0.05) for rows in doubles[:2])
    assert after > before
    lengths = (moved - noise).norm(dim=1)
    assert ((lengths > 3e-3) & (lengths < 4.01e-3)).all()


def test_noise_without_a_gradient_stays():
    first = torch.tensor([[0.0, 2.0], [0.0, 1.0]])
    noise = torch.tensor([[0.0, 3.0], [0.0, -1.0], [0.0, 0.0], [1.0, 0.0]])
    moved = ascend(noise, first, torch.ones(2, 2), 0.05, 1, 0.1)
    assert torch.equal(moved[:2], noise[:2])
    assert torch.isfinite(moved).all()
    torch.testing.assert_close(moved[3], torch.tensor([1.0, 0.1]))


def test_the_softmax_of_noise_may_be_as_small_as_it_likes():
    """Shares of e^-200 are 0 in single precision, but have a direction all the same."""
    first = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    noise = torch.tensor([[-1.0, -1.0, 0.5]])
    cosines = cosine_tensor(first, first)
    found = ascend(noise, first, cosines, 0.005, 1, 1.0)
    doubles = (tensor.double() for tensor in (noise, first, first))
    torch.testing.assert_close(found.double(), ascend_by_autograd(*doubles, 0.005, 1, 1.0))


# --- the whole ---


def test_without_noise_and_weights_it_is_simcse(build_loss):
    companion = functional.normalize(numbers(1, 4, 5), dim=1).half()
    plain = build_loss("bert", SimCSE())
    for formula, same in (("paper", True), ("authors", False)):
        method = DCLR(threshold=1.01, noise_ratio=0.0, formula=formula)
        made = build_loss("bert", method, companion=companion)
        value = made.loss([made.features])
        expected = plain.loss([plain.features])
        assert (value.item() == pytest.approx(expected.item(), rel=1e-6)) == same
        assert made.loss.logged["dropped_negatives"] == 0
        assert made.loss.logged["noise_cosine"] == 0
        if same:
            value.backward()
            expected.backward()
            pairs = zip(made.loss.parameters(), plain.loss.parameters(), strict=True)
            for own, other in pairs:
                assert (own.grad is None) == (other.grad is None)
                if own.grad is not None:
                    torch.testing.assert_close(own.grad, other.grad)


@pytest.mark.parametrize("formula", ["paper", "authors"])
def test_noise_and_weights_by_hand(build_loss, formula):
    method = DCLR(threshold=0.3, noise_ratio=1.9, ascent_size=0.5, formula=formula)
    loss = build_loss("bert", method).loss
    z, companion = numbers(3, 2, 6, 32), functional.normalize(numbers(4, 6, 3), dim=1)
    z[1] += 0.5 * z[0]
    torch.manual_seed(5)
    value, logged = loss.contrast(z.requires_grad_(), {"companion": companion.half()})
    torch.manual_seed(5)
    noise = torch.randn(11, 32)
    z = z.detach()
    noise = ascend_by_autograd(noise.double(), *z.double(), 0.05, 4, 0.5)
    cosines, near = cosines_by_hand(z[0], z[1]), cosines_by_hand(z[0], noise)
    kept = (cosines_by_hand(companion, companion) <= 0.3) | np.eye(6, dtype=bool)
    assert 0 < (~kept).sum() < 20
    logits = np.concatenate([cosines, near], axis=1) / 0.05
    whole = np.concatenate([kept, np.ones((6, 11), dtype=bool)], axis=1)
    if formula == "paper":
        sums = logsumexp(np.where(whole, logits, -np.inf), axis=1)
        expected = np.mean(sums - np.diagonal(logits))
        assert expected != pytest.approx(info_nce_by_hand(cosines), rel=1e-3)
    else:
        logits = logits * whole
        shares = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
        right = np.eye(6, 17, dtype=bool)
        expected = -np.mean(np.where(right, np.log(shares), np.log1p(-shares)))
    assert value.item() == pytest.approx(expected, rel=1e-4)
    assert logged["dropped_negatives"].item() == pytest.approx((~kept).sum() / 30)
    assert logged["noise_cosine"].item() == pytest.approx(near.mean(), rel=1e-3, abs=1e-5)
    assert not any(part.requires_grad for part in logged.values())


def test_noise_is_fresh_each_time_and_a_constant(build_loss):
    companion = torch.ones(4, 3)  # all alike: nothing but noise is a negative
    made = build_loss("bert", DCLR(noise_ratio=3.0, ascent_size=2.0), companion=companion)
    z = numbers(6, 2, 4, 32).requires_grad_()
    torch.manual_seed(7)
    value, logged = made.loss.contrast(z, made.features)
    assert made.loss.contrast(z, made.features)[0] != value
    assert logged["dropped_negatives"] == 1
    torch.manual_seed(7)
    noise = ascend_by_autograd(torch.randn(12, 32), *z.detach(), 0.05, 4, 2.0)
    positive = functional.cosine_similarity(*z) / 0.05
    near = functional.cosine_similarity(z[0][:, None], noise[None], dim=-1) / 0.05
    expected = (torch.cat([positive[:, None], near], dim=1).logsumexp(dim=1) - positive).mean()
    assert value.item() == pytest.approx(expected.item(), rel=1e-4)
    gradients = [torch.autograd.grad(loss, z)[0] for loss in (value, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)


# --- the complementary encoder ---


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "modernbert"])
def test_a_plain_transformer_is_read_at_its_first_token(masked_models, kind):
    from transformers import AutoModel, AutoTokenizer

    encoder = DCLR(complementary=str(masked_models[kind])).companion("cpu")
    tokens = AutoTokenizer.from_pretrained(masked_models[kind])(SENTENCES, padding=True, return_tensors="pt")
    model = AutoModel.from_pretrained(masked_models[kind]).eval()
    inputs = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        states = model(**inputs).last_hidden_state[:, 0]
    torch.testing.assert_close(encoder(SENTENCES), functional.normalize(states, dim=1), rtol=0, atol=1e-5)
    assert encoder.name == str(masked_models[kind])


def test_a_sentence_transformer_stays_as_it_is(tiny_folder):
    from sentence_transformers import SentenceTransformer

    vectors = DCLR(complementary=str(tiny_folder)).companion("cpu")(SENTENCES).numpy()
    expected = SentenceTransformer(str(tiny_folder), device="cpu").encode(
        SENTENCES, normalize_embeddings=True
    )
    np.testing.assert_allclose(vectors, expected, atol=1e-5)  # pooled by the mean


def test_a_plain_transformer_of_the_hubs_cache(masked_models, tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--someone--plain"
    shutil.copytree(masked_models["bert"], repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    method = DCLR(complementary="someone/plain")
    method.check(None)
    expected = DCLR(complementary=str(masked_models["bert"])).companion("cpu")(SENTENCES)
    torch.testing.assert_close(method.companion("cpu")(SENTENCES), expected)


def test_the_complementary_encoder_may_be_a_run_and_have_a_prompt(masked_models, tmp_path, monkeypatch):
    run = tmp_path / "run"
    shutil.copytree(masked_models["bert"], run / "encoder")
    (run / "rankencoder-run.json").write_text('{"finished": true}')
    monkeypatch.chdir(tmp_path)
    options = absolute_options("dclr", {"complementary": "run?prompt=query: "})
    assert options == {"complementary": f"{run}?prompt=query: "}
    method = DCLR(**options)
    method.check(None)
    plain = DCLR(complementary=str(masked_models["bert"])).companion("cpu")
    expected = plain([f"query: {sentence}" for sentence in SENTENCES])
    torch.testing.assert_close(method.companion("cpu")(SENTENCES), expected)


def test_what_to_do_without_a_complementary_encoder(masked_models, tmp_path, monkeypatch):
    shutil.copytree(masked_models["bert"], tmp_path / "pickled")
    torch.save({}, tmp_path / "pickled" / "pytorch_model.bin")
    (tmp_path / "pickled" / "model.safetensors").unlink()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    method = make_method("dclr", {}, DCLR.defaults(traits()))
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.json").write_text('{"model_type": "bert"}')
    for call, what in (
        (lambda: method.check(None), "unsup-simcse-bert-base-uncased'.*the hub is not reachable"),
        (lambda: DCLR(complementary=str(tmp_path / "empty")).check(None), "empty is not an encoder"),
        (lambda: DCLR(complementary=str(tmp_path / "damaged")).check(None), "cannot load.*damaged'"),
        (lambda: DCLR(complementary=str(tmp_path / "pickled")).check(None), "model.safetensors"),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert "\n" not in str(caught.value)
        caught.match(f"method 'dclr' needs a complementary encoder: .*{what}.*; set `options`")
        caught.match("`options` complementary=NAME, for example the folder 'base' of a SimCSE run$")


# --- settings ---


@pytest.mark.parametrize(
    ("roberta", "large", "expected"),
    [
        (False, False, (128, 3e-5, 3, 0.9, 1, "bert-base-uncased")),
        (True, False, (128, 3e-5, 3, 0.85, 2.5, "roberta-base")),
        (False, True, (64, 3e-5, 1, 0.9, 3, "bert-base-uncased")),
        (True, True, (64, 1e-5, 1, 0.85, 5, "roberta-base")),
    ],
)
def test_the_authors_settings(roberta, large, expected):
    """Section 6.5 of the specification."""
    defaults = DCLR.defaults(traits(roberta, large))
    names = ("batch_size", "learning_rate", "epochs", "threshold", "noise_ratio", "complementary")
    found = tuple(defaults[name] for name in names)
    assert found == (*expected[:-1], f"princeton-nlp/unsup-simcse-{expected[-1]}")
    assert defaults["precision"] == "fp32"
    method = make_method("dclr", {}, defaults)
    assert (method.ascent_steps, method.ascent_size, method.formula) == (4, 1e-3, "paper")
