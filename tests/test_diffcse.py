"""DiffCSE's projector, edited sentences and discriminator, against numpy, torch and transformers."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from loss_oracles import MASKED, cosines_by_hand, info_nce_by_hand, numbers
from scipy.special import log_softmax, softmax
from scipy.stats import chisquare
from tiny_backbones import llama_tokenizer, tiny_model, word_pieces
from torch import nn
from torch.nn import functional

from rankencoder.errors import InputError
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.losses.contrastive import Frozen
from rankencoder.training.methods.diffcse import DiffCSE, Projector, detection_loss, share
from rankencoder.training.methods.method import make_method


@pytest.fixture
def build(build_loss, masked_models):
    """The loss with the backbone as its generator."""

    def make(kind="bert", **options):
        made = build_loss(kind, DiffCSE(generator=str(masked_models[kind]), **options))
        made.inputs = {name: made.features[name] for name in ("input_ids", "attention_mask")}
        return made

    return make


class Speaks(nn.Module):
    """A generator that says what it is told to, and keeps what it was given."""

    def __init__(self, answer, vocabulary):
        super().__init__()
        self.answer, self.vocabulary = answer, vocabulary

    def forward(self, input_ids, attention_mask):
        self.given = input_ids
        return SimpleNamespace(logits=functional.one_hot(self.answer, self.vocabulary).float())


def speaking(made, answer):
    generator = Speaks(answer, made.backbone.config.vocab_size)
    made.loss.generator = Frozen(generator)
    return generator


def traits(roberta):
    return SimpleNamespace(kind="masked", is_roberta=roberta, is_large=False)


# --- the projector ---


def normalized(rows):
    return (rows - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0) + 1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_the_projector_by_hand(training):
    torch.manual_seed(0)
    projector = Projector(6).train(training)
    parameters = dict(projector.named_parameters())
    assert sorted(p.shape for p in parameters.values()) == [(6, 12), (12,), (12,), (12, 6)]
    assert not list(projector.buffers())
    vectors = numbers(1, 5, 2, 6)
    first, second = (p.detach().double().numpy() for p in parameters.values() if p.ndim == 2)
    rows = vectors.double().numpy().reshape(10, 6)
    expected = normalized(np.maximum(normalized(rows @ first.T), 0) @ second.T)
    found = projector(vectors)
    np.testing.assert_allclose(found.detach().numpy().reshape(10, 6), expected, atol=1e-4)
    assert found.shape == (5, 2, 6)


def test_the_projector_begins_as_transformers_layers_do():
    torch.manual_seed(0)
    linear = [p for p in Projector(300).parameters() if p.ndim == 2]
    for weight in linear:
        assert weight.std().item() == pytest.approx(0.02, rel=0.02)
        assert abs(weight.mean().item()) < 1e-3


def test_a_last_batch_of_one_sentence(build):
    made = build()
    rows = torch.tensor([0, 4])
    inputs = {name: value[rows] for name, value in made.inputs.items()}
    made.loss.train()
    loss = made.loss([{**inputs, "rows": torch.tensor([0])}])
    assert torch.isfinite(loss)


# --- edited sentences ---


@pytest.mark.parametrize("kind", MASKED)
def test_edited_sentences_are_what_the_generator_says(build, masked_models, kind):
    from transformers import AutoModelForMaskedLM

    made = build(kind, mask_ratio=0.5)
    ids, mask = made.inputs["input_ids"], made.inputs["attention_mask"]
    before = ids.clone()
    torch.manual_seed(3)
    masked, selected = made.loss.mask(ids)
    assert not torch.equal(selected[:4], selected[4:])
    oracle = AutoModelForMaskedLM.from_pretrained(masked_models[kind]).eval()
    with torch.no_grad():
        expected = oracle(masked, attention_mask=mask).logits.argmax(dim=-1)
    expected[:, 0] = made.backbone.tokenizer.cls_token_id
    expected[mask == 0] = made.backbone.tokenizer.pad_token_id
    torch.manual_seed(3)
    assert torch.equal(made.loss.train().edit(made.inputs), expected)  # without dropout, even in training
    assert torch.equal(ids, before)


def test_the_generators_dropout_is_a_switch(build):
    """As in the authors' code: on whatever mode the loss is in, and drawn anew each time."""
    for on in (False, True):
        made = build("bert", generator_dropout=on)
        inputs = {**made.inputs, "input_ids": made.loss.mask(made.inputs["input_ids"])[0]}
        for loss in (made.loss.eval(), made.loss.train()):
            first, second = (loss.generator(**inputs).logits for _ in range(2))
            assert torch.equal(first, second) is not on
        assert not any(parameter.requires_grad for parameter in made.loss.generator.parameters())


def test_special_tokens_are_never_masked(build):
    made = build("roberta", mask_ratio=1.0)
    ids = made.inputs["input_ids"]
    generator = speaking(made, ids)
    made.loss.edit(made.inputs)
    special = torch.isin(ids, torch.tensor(made.backbone.tokenizer.all_special_ids))
    assert torch.equal(generator.given[special], ids[special])
    assert (generator.given != ids)[~special].float().mean() > 0.5


def test_every_real_token_but_the_first_may_be_replaced(build):
    made = build()
    ids, real = made.inputs["input_ids"], made.inputs["attention_mask"].bool()
    assert not real.all()
    speaking(made, torch.full_like(ids, 40))
    edited = made.loss.edit(made.inputs)
    expected = torch.where(real, 40, ids)
    expected[:, 0] = ids[:, 0]
    assert torch.equal(edited, expected)
    logged = {}
    made.loss.auxiliary(made.inputs, numbers(1, 2, 4, 32), logged)
    others = (ids != 40) & real
    others[:, 0] = False
    assert logged["replaced"].item() == pytest.approx((others.sum() / real.sum()).item())


def test_sampled_tokens_have_the_generators_frequencies(build):
    made = build(sampling="sample")
    size = made.backbone.config.vocab_size
    wanted = numbers(2, size)

    class Draws(nn.Module):
        def forward(self, input_ids, attention_mask):
            return SimpleNamespace(logits=wanted.expand(*input_ids.shape, size))

    made.loss.generator = Frozen(Draws())
    ids = torch.full((400, 50), 40)
    torch.manual_seed(4)
    edited = made.loss.edit({"input_ids": ids, "attention_mask": torch.ones_like(ids)})[:, 1:]
    counts = torch.bincount(edited.flatten(), minlength=size).numpy()
    shares = softmax(wanted.double().numpy())
    assert chisquare(counts, shares / shares.sum() * edited.numel()).pvalue > 1e-4


# --- the discriminator ---


def run_by_hand(model, ids, mask, vectors):
    """BERT's layers one by one, with vectors in place of the first token's embedding."""
    states = model.embeddings(ids)
    states = torch.cat([vectors[:, None], states[:, 1:]], dim=1)
    hidden = torch.zeros(mask.shape).masked_fill(mask == 0, -1e9)[:, None, None]
    for layer in model.encoder.layer:
        states = layer(states, hidden)
        states = states[0] if isinstance(states, tuple) else states
    return states


@pytest.mark.parametrize("padding_counts", [True, False])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_detections_loss_by_hand(build, masked_models, kind, padding_counts):
    from transformers import AutoModel

    made = build(kind, mask_ratio=0.4, rtd_weight=0.3, padding_counts=padding_counts)
    mask = made.inputs["attention_mask"]
    vectors = numbers(5, 2, 4, 32)
    torch.manual_seed(6)
    edited = made.loss.edit(made.inputs)
    torch.manual_seed(6)
    logged = {}
    value = made.loss.auxiliary(made.inputs, vectors, logged)["rtd"]
    oracle = AutoModel.from_pretrained(masked_models[kind], attn_implementation="eager").eval()
    head = made.loss.discriminator.classes
    with torch.no_grad():
        logits = head(run_by_hand(oracle, edited, mask, torch.cat(list(vectors)))).double().numpy()
    replaced = (edited != made.inputs["input_ids"]).numpy()
    real = mask.numpy().astype(bool)
    assert 0 < replaced[real].mean() < 1
    likely = log_softmax(logits, axis=-1)
    losses = -np.where(replaced, likely[..., 1], likely[..., 0])
    right = (logits[..., 1] > logits[..., 0]) == replaced
    expected = losses.mean() if padding_counts else losses[real].mean()
    assert value.item() == pytest.approx(0.3 * expected, rel=1e-4)
    assert logged["replaced"].item() == pytest.approx(replaced[real].mean(), rel=1e-5)
    assert logged["replaced_accuracy"].item() == pytest.approx(right[replaced].mean(), rel=1e-5)
    assert logged["kept_accuracy"].item() == pytest.approx(right[real & ~replaced].mean(), rel=1e-5)


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9), st.booleans(), st.booleans()), min_size=1))
def test_detection_loss_is_a_mean_of_cross_entropies(rows):
    kept, changed, replaced, counted = (np.array(column) for column in zip(*rows, strict=True))
    counted[0] = True
    chances = softmax(np.stack([kept, changed], axis=1), axis=1)
    expected = -np.log(chances[np.arange(len(rows)), replaced.astype(int)])[counted].mean()
    logits = torch.tensor(np.stack([kept, changed], axis=1))[None]
    found = detection_loss(logits, torch.tensor(replaced)[None], torch.tensor(counted)[None])
    assert found.item() == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kind", MASKED)
def test_the_discriminator_sees_the_sentences_vector(build, kind):
    made = build(kind)
    discriminator = made.loss.discriminator
    vectors = numbers(7, 8, 32)
    other = vectors.clone()
    other[2] += 1
    with torch.no_grad():
        before, after = (discriminator(made.inputs, rows) for rows in (vectors, other))
        changed_ids = {**made.inputs, "input_ids": made.inputs["input_ids"].clone()}
        changed_ids["input_ids"][:, 0] = 40  # its own first token is not seen
        unseen = discriminator(changed_ids, vectors)
    changed = (before - after).abs().amax(dim=(1, 2)) > 1e-4
    assert changed.tolist() == [row == 2 for row in range(8)]
    assert ((before - after)[2, :5].abs().amax(dim=-1) > 1e-5).all()
    torch.testing.assert_close(unseen, before)
    assert discriminator.vectors is None


@pytest.mark.parametrize("kind", MASKED)
def test_the_detection_trains_the_encoder(build, kind):
    made = build(kind)
    objective = made.loss.objective(made.features)
    objective.auxiliary["rtd"].backward()
    trained = [p for p in made.model.parameters() if p.requires_grad]
    assert all(p.grad is not None for p in trained)
    assert sum(p.grad.abs().sum() for p in trained) > 1e-6
    assert all(p.grad is not None and p.grad.any() for p in made.loss.head.parameters() if p.ndim == 2)


@pytest.mark.parametrize("kind", MASKED)
def test_three_models_of_their_own(build, kind):
    made = build(kind)
    made.loss.train()
    discriminator, generator = made.loss.discriminator, made.loss.generator
    parts = (made.model, discriminator, generator)
    ids = [{id(p) for p in part.parameters()} for part in parts]
    assert not ids[0] & ids[1]
    assert not (ids[0] | ids[1]) & ids[2]
    assert not any(p.requires_grad for p in generator.parameters())
    assert all(p.requires_grad for p in discriminator.parameters())
    assert not any(module.training for module in generator.frozen.modules())
    pretrained = dict(made.model[0].model.named_parameters())
    for name, parameter in discriminator.model.named_parameters():
        assert torch.equal(parameter, pretrained[name]), name


@pytest.mark.parametrize("kind", MASKED)
def test_the_discriminator_has_the_backbones_dropout_from_the_start(masked_models, kind):
    backbone = load_backbone(str(masked_models[kind]))
    method = DiffCSE(generator=backbone.name)
    discriminator = method.loss(method.encoder(backbone), backbone).discriminator
    inputs = {"input_ids": torch.full((2, 9), 40), "attention_mask": torch.ones(2, 9).long()}
    first, second = (discriminator(inputs, torch.ones(2, 32)) for _ in range(2))
    assert (first - second).abs().max() > 1e-3
    chances = [
        sorted(m.p for m in model.modules() if isinstance(m, nn.Dropout))
        for model in (discriminator.model, backbone.module.model)
    ]
    assert chances[0] == chances[1]


# --- the whole ---


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_without_the_detection_it_is_simcse_with_a_projector(build, kind):
    made = build(kind, rtd_weight=0.0, temperature=0.5)
    order = [0, 1, 2, 3, 5, 6, 7, 4]  # or the second views would be the first
    inputs = {name: value[order] for name, value in made.inputs.items()}
    twin = copy.deepcopy(made.model), copy.deepcopy(made.loss.head)
    value = made.loss([{**made.features, **inputs}])
    vectors = twin[0](dict(inputs))["sentence_embedding"]
    projected = twin[1](torch.stack(vectors.split(4), dim=1)).transpose(0, 1).flatten(0, 1)
    cosines = functional.cosine_similarity(projected[:4, None], projected[None, 4:], dim=-1)
    expected = functional.cross_entropy(cosines / 0.5, torch.arange(4))
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    by_hand = info_nce_by_hand(cosines_by_hand(*projected.detach().split(4)), 0.5)
    assert value.item() == pytest.approx(by_hand, rel=1e-4)
    value.backward()
    expected.backward()
    for ours, others in zip((made.model, made.loss.head), twin, strict=True):
        for own, other in zip(ours.parameters(), others.parameters(), strict=True):
            if own.requires_grad:
                torch.testing.assert_close(own.grad, other.grad, rtol=1e-4, atol=1e-5)


def test_nothing_replaced_is_nothing_to_divide_by(build):
    made = build()
    speaking(made, made.inputs["input_ids"])
    loss = made.loss([made.features])
    logged = made.loss.logged
    assert logged["replaced"] == 0
    assert logged["replaced_accuracy"] == 0
    assert torch.isfinite(loss)
    assert all(torch.isfinite(value) and not value.requires_grad for value in logged.values())
    none = torch.zeros(2, 2).bool()
    assert share(none, none) == 0
    expected = logged["contrastive"] + logged["rtd"]
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)


# --- generators that do not fit ---


@pytest.fixture(scope="module")
def misfits(tmp_path_factory):
    from transformers import AutoModelForMaskedLM

    folder = tmp_path_factory.mktemp("misfits")
    tokenizer = word_pieces()
    config = tiny_model("bert", tokenizer).config

    def save(name, tokenizer, model):
        tokenizer.save_pretrained(folder / name)
        model.save_pretrained(folder / name)

    save("headless", tokenizer, tiny_model("bert", tokenizer))
    larger = copy.deepcopy(config)
    larger.vocab_size += 8
    save("larger", tokenizer, AutoModelForMaskedLM.from_config(larger))
    other = word_pieces()
    other.cls_token = "[SEP]"
    save("special", other, AutoModelForMaskedLM.from_config(config))
    save("causal", llama_tokenizer(), tiny_model("llama", llama_tokenizer()))
    (folder / "empty").mkdir()
    return folder


NEEDS = "^method 'diffcse' needs a generator, a masked language model with the backbone's vocabulary: "
TO_DO = "; set `options` generator=NAME, for example the backbone$"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("headless", "generator '.*headless' has no language modeling head"),
        ("larger", "generator '.*larger' has a different vocabulary"),
        ("special", "generator '.*special' has a different vocabulary"),
        ("causal", "cannot load generator '.*causal': .*MaskedLM.*"),
        ("empty", "cannot load generator '.*empty': .*"),
    ],
)
def test_generators_that_do_not_fit(masked_models, misfits, name, what):
    backbone = load_backbone(str(masked_models["bert"]))
    with pytest.raises(InputError) as caught:
        DiffCSE(generator=str(misfits / name)).check(backbone)
    assert "\n" not in str(caught.value)
    caught.match(NEEDS + what + TO_DO)


def test_another_vocabulary_is_refused(masked_models):
    backbone = load_backbone(str(masked_models["bert"]))
    DiffCSE(generator=str(masked_models["distilbert"])).check(backbone)
    with pytest.raises(InputError, match=f"{NEEDS}generator '.*' has a different vocabulary{TO_DO}"):
        DiffCSE(generator=str(masked_models["roberta"])).check(backbone)


@pytest.mark.parametrize(
    ("kind", "name"), [("bert", "distilbert-base-uncased"), ("roberta", "distilroberta-base")]
)
def test_what_to_do_without_a_hub(masked_models, tmp_path, monkeypatch, kind, name):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    backbone = load_backbone(str(masked_models[kind]))
    method = make_method("diffcse", {}, DiffCSE.defaults(backbone))
    with pytest.raises(InputError, match=f"{NEEDS}.*'{name}'.*the hub is not reachable{TO_DO}"):
        method.check(backbone)


def test_embeddings_that_no_vector_fits_into(tmp_path):
    from transformers import AutoConfig, AutoModelForMaskedLM

    tokenizer = word_pieces()
    tokenizer.save_pretrained(tmp_path)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = AutoConfig.for_model("electra", vocab_size=len(tokenizer), embedding_size=16, **size)
    AutoModelForMaskedLM.from_config(config).save_pretrained(tmp_path)
    backbone = load_backbone(str(tmp_path))
    with pytest.raises(InputError, match="'diffcse' cannot train '.*': its embeddings have no room"):
        DiffCSE(generator=str(tmp_path)).check(backbone)


# --- settings ---


@pytest.mark.parametrize(
    ("roberta", "expected"),
    [
        (False, (64, 7e-6, 2, 0.3, "distilbert-base-uncased")),
        (True, (64, 1e-5, 2, 0.2, "distilroberta-base")),
    ],
)
def test_the_authors_settings(roberta, expected):
    """Section 7.3 of the specification."""
    defaults = DiffCSE.defaults(traits(roberta))
    names = ("batch_size", "learning_rate", "epochs", "mask_ratio", "generator")
    assert tuple(defaults[name] for name in names) == expected
    method = make_method("diffcse", {}, defaults)
    assert (method.rtd_weight, method.sampling, method.padding_counts) == (0.005, "argmax", True)
