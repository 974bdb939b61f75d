"""The losses of training against the specification's numbers, scipy, transformers, sentence-transformers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import binomtest, chisquare, spearmanr
from tiny_backbones import KINDS, TEXTS, tiny_model, word_pieces
from torch.nn.functional import normalize

from rankencoder.errors import InputError
from rankencoder.ranks import training_rank_vectors
from rankencoder.training.backbone import Backbone, load_backbone
from rankencoder.training.collator import ViewCollator
from rankencoder.training.config import TrainConfig
from rankencoder.training.contrastive import Head
from rankencoder.training.losses import (
    cosine_matrix,
    info_nce,
    rank_loss,
    rank_targets,
    select_pairs,
    total_loss,
)
from rankencoder.training.methods import SNCSE, PromptBERT, SimCSE, SimCSEWithMLM, make_method
from rankencoder.training.methods.sncse import completed, margin_loss
from rankencoder.training.rankloss import RankEncoderLoss
from rankencoder.training.templates import add_full_stop

MASKED = ("bert", "roberta", "distilbert", "modernbert")
SENTENCES = [
    "A cat sleeps on the warm windowsill.",
    "The river moves.",
    "Is it here?",
    "The Cat sees the DOG.",
]

# section 9.8 of the specification
CORPUS = torch.tensor([[1, 0], [0, 1], [-1, 0], [0, -1], [0.6, 0.8]])
BATCH = torch.tensor([[0.8, 0.6], [0.28, 0.96], [-0.6, 0.8]])
RANKS = [[3, 2, 0, 1, 4], [2, 4, 1, 0, 3], [1, 4, 3, 0, 2]]
TARGETS = torch.tensor([[1, 0.6, -0.1], [0.6, 1, 0.7], [-0.1, 0.7, 1]])
COSINES = torch.tensor([[0.95, 0.40, 0.10], [0.35, 0.90, 0.55], [0.05, 0.50, 0.92]])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Random masked language models, with their heads."""
    from transformers import AutoModelForMaskedLM

    made = {}
    for kind in MASKED:
        made[kind] = folder = tmp_path_factory.mktemp(kind)
        tokenizer = KINDS[kind][0]()
        tokenizer.save_pretrained(folder)
        torch.manual_seed(1)
        AutoModelForMaskedLM.from_config(tiny_model(kind, tokenizer).config).save_pretrained(folder)
    return made


@pytest.fixture
def build(folders):
    """Makes a method's loss on a tiny model, without dropout, and a batch for it."""

    def make(kind, method, texts=SENTENCES, **more):
        backbone = load_backbone(str(folders[kind]))
        model = method.encoder(backbone)
        torch.manual_seed(2)
        loss = method.loss(model, backbone)
        loss.eval()
        rows = [{"row": i, "text": text, "negation": f"Not {text}"} for i, text in enumerate(texts)]
        batch = ViewCollator(method, backbone, 32)(rows)
        features = {name.removeprefix("views_"): value for name, value in batch.items()}
        return SimpleNamespace(backbone=backbone, model=model, loss=loss, features={**features, **more})

    return make


def numbers(generator, *shape):
    return torch.from_numpy(np.random.default_rng(generator).normal(size=shape)).float()


def cosines_by_hand(a, b):
    a, b = (np.asarray(rows, dtype=np.float64) for rows in (a, b))
    return (a @ b.T) / np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))


def info_nce_by_hand(cosines, temperature=0.05):
    return float(np.mean(logsumexp(cosines / temperature, axis=1) - np.diagonal(cosines) / temperature))


# --- the contrastive loss ---


def test_info_nce_of_the_specification():
    exact = torch.tensor([[0.95, 0.40, 0.10], [0.35, 0.90, 0.55], [0.05, 0.50, 0.92]], dtype=torch.float64)
    assert info_nce(exact, 0.05).item() == pytest.approx(3.899218e-4, abs=1e-10)
    assert info_nce(COSINES, 0.05).item() == pytest.approx(3.899218e-4, rel=1e-3)
    assert info_nce(torch.full((7, 7), 0.3), 0.05).item() == pytest.approx(np.log(7), abs=1e-6)


def test_info_nce_is_multiple_negatives_ranking_loss_of_scale_20(build):
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    made = build("bert", SimCSE())
    made.loss.head = torch.nn.Identity()
    other = [text.replace("The", "A") + " and a dog" for text in SENTENCES]
    one, two = (
        made.backbone.tokenizer(texts, padding="max_length", max_length=24) for texts in (SENTENCES, other)
    )
    pairs = [{k: torch.tensor(part[k]) for k in ("input_ids", "attention_mask")} for part in (one, two)]
    views = {key: torch.cat([part[key] for part in pairs]) for key in pairs[0]}
    results = []
    for loss, features in (
        (made.loss, [{**views, "rows": torch.arange(4)}]),
        (MultipleNegativesRankingLoss(made.model, scale=20), pairs),
    ):
        made.model.zero_grad()
        value = loss(features, None)
        value.backward()
        results.append((value.item(), made.model[0].model.embeddings.word_embeddings.weight.grad.clone()))
    assert results[0][0] > 0.01
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-3, atol=1e-6)


def test_simcse_without_dropout(build):
    """Section 1.8: both views are the same then, and the loss is mean_i log Σ_j exp((cos_ij − 1)/τ)."""
    made = build("bert", SimCSE(temperature=0.5))
    vectors = made.model.encode(SENTENCES)
    weight, bias = (p.detach().double().numpy() for p in made.loss.head[0].parameters())
    cosines = cosines_by_hand(*[np.tanh(vectors @ weight.T + bias)] * 2)
    expected = logsumexp((cosines - 1) / 0.5, axis=1).mean()
    assert expected > 0.1
    assert made.loss([made.features]).item() == pytest.approx(expected, abs=1e-5)
    logged = made.loss.logged
    assert logged["positive_cosine"].item() == pytest.approx(1, abs=1e-6)
    assert logged["negative_cosine"].item() == pytest.approx((cosines.sum() - 4) / 12, abs=1e-5)
    assert logged["contrastive"].item() == pytest.approx(expected, abs=1e-5)


def test_the_head_is_initialised_as_transformers_does():
    torch.manual_seed(0)
    head = Head(256)
    linear, activation = head
    assert linear.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert linear.weight.mean().item() == pytest.approx(0, abs=4e-4)
    assert not linear.bias.any()
    x = numbers(0, 3, 256)
    torch.testing.assert_close(head(x), torch.tanh(x @ linear.weight.T + linear.bias))
    assert isinstance(activation, torch.nn.Tanh)


def test_cosines_are_those_of_scikit_learn():
    from sklearn.metrics.pairwise import cosine_similarity

    a, b = numbers(0, 5, 16), numbers(1, 7, 16)
    np.testing.assert_allclose(cosine_matrix(a, b), cosine_similarity(a, b), atol=1e-6)
    assert cosine_matrix(torch.zeros(2, 16), b).abs().max() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_autocast_costs_no_digits(dtype):
    a, b = numbers(0, 5, 64).to(dtype), numbers(1, 5, 64).to(dtype)
    reference = normalize(numbers(2, 300, 64), dim=1)
    expected, targets = cosine_matrix(a, b), rank_targets(a, reference)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a @ b.T).dtype == torch.bfloat16
        assert cosine_matrix(a, b).dtype == rank_targets(a, reference).dtype == torch.float32
        assert torch.equal(cosine_matrix(a, b), expected)
        assert torch.equal(rank_targets(a, reference), targets)
    np.testing.assert_allclose(expected, cosines_by_hand(a.float(), b.float()), atol=1e-6)


# --- the rank loss ---


def test_ranks_and_targets_of_the_specification():
    ranks = training_rank_vectors(BATCH @ CORPUS.T)
    torch.testing.assert_close(ranks, (torch.tensor(RANKS) - 2) / 10**0.5)
    torch.testing.assert_close(rank_targets(BATCH, CORPUS), TARGETS)


@pytest.mark.parametrize(
    ("lower", "upper", "pairs", "expected"),
    [(0.5, 0.8, 4, 0.04125), (0.5, 1.0, 7, 0.0262714), (-1, 1, 9, 0.0273778)],
)
def test_rank_loss_of_the_specification(lower, upper, pairs, expected):
    for targets in (TARGETS, rank_targets(BATCH, CORPUS)):
        chosen = select_pairs(targets, lower, upper, "auto")
        assert chosen.sum() == pairs
        assert rank_loss(COSINES, targets, chosen).item() == pytest.approx(expected, abs=5e-8)


@pytest.mark.parametrize("n", [2_000, 20_000])
def test_targets_are_spearman_correlations(n):
    reference = normalize(numbers(n, n, 24), dim=1)
    teacher = numbers(7, 12, 24)
    teacher[1] = teacher[0] + 0.01 * teacher[2]
    similarities = teacher.double().numpy() @ reference.double().numpy().T
    targets = rank_targets(teacher, reference)
    np.testing.assert_allclose(targets, spearmanr(similarities, axis=1).statistic, atol=1e-5)
    assert targets[0, 1] > 0.99
    assert not targets.requires_grad


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([2, 3, 17, 400, 10_000]),
    powers=st.lists(st.integers(-20, 20), min_size=6, max_size=6),
)
def test_targets_are_symmetric_and_know_nothing_of_lengths(seed, n, powers):
    reference = normalize(numbers(seed, n, 8), dim=1)
    teacher = numbers([seed, 1], 6, 8)
    targets = rank_targets(teacher, reference)
    torch.testing.assert_close(targets, targets.T, rtol=0, atol=1e-5)
    torch.testing.assert_close(targets.diagonal(), torch.ones(6), rtol=0, atol=1e-5)
    assert targets.abs().max() <= 1
    scaled = teacher * 2.0 ** torch.tensor(powers)[:, None]
    assert torch.equal(rank_targets(scaled, reference), targets)


def test_targets_of_vectors_in_half_precision():
    reference = normalize(numbers(0, 3_000, 24), dim=1)
    teacher = numbers(1, 8, 24).half()
    similarities = teacher.double().numpy() @ reference.double().numpy().T
    np.testing.assert_allclose(
        rank_targets(teacher, reference), spearmanr(similarities, axis=1).statistic, atol=1e-5
    )


def test_pairs_with_oneself():
    targets = torch.tensor([[1, 0.55, 0.2], [0.55, 1, 0.9], [0.2, 0.9, 1]])
    before = targets.clone()
    without = [[False, True, False], [True, False, False], [False, False, False]]
    assert select_pairs(targets, 0.5, 0.8, "auto").tolist() == without
    assert select_pairs(targets, 0.5, 0.8, "never").tolist() == without
    with_all = [[True, True, False], [True, True, False], [False, False, True]]
    assert select_pairs(targets, 0.5, 0.8, "always").tolist() == with_all
    everything = torch.ones(3, 3, dtype=torch.bool)
    assert torch.equal(select_pairs(targets, -1, 1, "auto"), everything)
    assert torch.equal(select_pairs(targets, -1, 1, "never"), everything ^ torch.eye(3, dtype=torch.bool))
    assert torch.equal(targets, before)
    # the half-precision accident of the authors' code, section 9.5
    half = targets.half()
    assert torch.equal(select_pairs(targets, 0.5, 0.9999, "always"), (half >= 0.5) & (half <= 0.9999))
    assert not select_pairs(targets, 0.5, 0.9999, "auto").diagonal().any()


@pytest.mark.parametrize("n", [50, 2_000, 20_000])
def test_an_upper_bound_of_1_takes_in_the_whole_diagonal(n):
    targets = rank_targets(numbers(0, 64, 16), normalize(numbers(1, n, 16), dim=1))
    assert select_pairs(targets, 0.5, 1.0, "auto").diagonal().all()


def test_bounds_are_inclusive():
    targets = torch.tensor([[0.5, 0.8], [0.4999, 0.8001]])
    assert select_pairs(targets, 0.5, 0.8, "auto").tolist() == [[True, True], [False, False]]


def test_rank_loss_is_the_mean_over_the_chosen_pairs():
    cosines, targets = torch.tanh(numbers(0, 9, 9)).requires_grad_(), torch.tanh(numbers(1, 9, 9))
    chosen = select_pairs(targets, -0.2, 0.6, "auto")
    assert 9 < chosen.sum() < 72
    loss = rank_loss(cosines, targets, chosen)
    difference = (cosines.detach() - targets).numpy()
    assert loss.item() == pytest.approx(np.mean(difference[chosen.numpy()] ** 2), rel=1e-6)
    loss.backward()
    expected = np.where(chosen, 2 * difference / chosen.sum().item(), 0)
    np.testing.assert_allclose(cosines.grad, expected, atol=1e-7)


def test_without_a_pair_in_range_there_is_nothing_to_learn():
    vectors = numbers(0, 4, 8).requires_grad_()
    targets = torch.full((4, 4), 0.1)
    loss = rank_loss(cosine_matrix(vectors, vectors), targets, select_pairs(targets, 0.5, 0.8, "auto"))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(vectors.grad, torch.zeros(4, 8))


@pytest.mark.parametrize(
    ("contrastive", "rank", "combine", "value", "gradients"),
    [
        (0.2, 2.0, "max", 0.2, (1, 0)),
        (0.2, 5.0, "max", 0.25, (0, 0.05)),
        (0.2, 2.0, "sum", 0.3, (1, 0.05)),
        (0.2, 5.0, "sum", 0.45, (1, 0.05)),
    ],
)
def test_the_larger_loss_takes_all_or_both_add_up(contrastive, rank, combine, value, gradients):
    parts = [torch.tensor(part, requires_grad=True) for part in (contrastive, rank)]
    total = total_loss(*parts, 0.05, combine)
    total.backward()
    assert total.item() == pytest.approx(value, rel=1e-6)
    assert [part.grad.item() for part in parts] == pytest.approx(gradients)


REFERENCE = normalize(numbers(5, 500, 12), dim=1)
TEACHER = normalize(numbers(6, 4, 12), dim=1)
TEACHER[1] = normalize(TEACHER[0] + 0.7 * TEACHER[1], dim=0)


@pytest.mark.parametrize("student", ["encoder", "head"])
@pytest.mark.parametrize("combine", ["max", "sum"])
@pytest.mark.parametrize("diagonal", ["auto", "always"])
@pytest.mark.parametrize("weight", [0.5, 50])
def test_the_loss_of_stage_2_by_hand(build, student, combine, diagonal, weight):
    made = build("bert", SimCSE(temperature=0.5), teacher=TEACHER.half())
    chosen = {"combine": combine, "diagonal": diagonal, "student": student, "weight": weight}
    loss = RankEncoderLoss(made.loss, REFERENCE, lower=0.3, upper=0.9, **chosen)
    value = loss([made.features]).item()
    vectors = torch.from_numpy(made.model.encode(SENTENCES))
    outputs = cosines_by_hand(*[made.loss.head(vectors).detach()] * 2)
    contrastive = info_nce_by_hand(outputs, 0.5)
    targets = spearmanr(TEACHER.half().double().numpy() @ REFERENCE.double().numpy().T, axis=1).statistic
    chosen = (targets >= 0.3) & (targets <= 0.9)
    assert 0 < chosen.sum() < 12
    np.fill_diagonal(chosen, diagonal == "always")
    cosines = outputs if student == "head" else cosines_by_hand(vectors, vectors)
    rank = np.mean((cosines - targets)[chosen] ** 2)
    assert (weight * rank > contrastive) == (weight == 50)
    expected = max(weight * rank, contrastive) if combine == "max" else weight * rank + contrastive
    assert value == pytest.approx(expected, rel=1e-4)
    figures = {name: value.item() for name, value in loss.logged.items()}
    assert figures["contrastive"] == pytest.approx(contrastive, rel=1e-4)
    assert figures["rank"] == pytest.approx(rank, rel=1e-4)
    assert figures["weighted_rank"] == pytest.approx(weight * rank, rel=1e-4)
    assert figures["diagonal_pairs"] == (4 if diagonal == "always" else 0)
    assert figures["pairs"] == chosen.sum() - figures["diagonal_pairs"]
    assert figures["target"] == pytest.approx(targets.mean(), abs=1e-5)


@pytest.mark.parametrize(("weight", "moved"), [(1e3, False), (1e-3, True)])
def test_the_smaller_loss_moves_nothing(build, weight, moved):
    """The head is in the contrastive loss alone, the encoder in both."""
    made = build("bert", SimCSE(temperature=0.5), teacher=TEACHER)
    loss = RankEncoderLoss(made.loss, REFERENCE, weight=weight, lower=0.3, upper=0.9)
    loss([made.features]).backward()
    assert made.loss.head[0].weight.grad.any().item() is moved
    assert made.model[0].model.embeddings.word_embeddings.weight.grad.any()
    assert loss.reference.grad is None
    assert [name for name, _ in loss.named_parameters() if "reference" in name] == []


def test_masked_language_modelling_comes_on_top_of_the_larger_loss(build):
    made = build("bert", SimCSEWithMLM(), teacher=TEACHER)
    loss = RankEncoderLoss(made.loss, REFERENCE, weight=1e3, lower=0.3, upper=0.9)
    value = loss([made.features]).item()
    figures = {name: part.item() for name, part in loss.logged.items()}
    assert figures["mlm"] > 0.01
    assert figures["weighted_rank"] > figures["contrastive"]
    assert value == pytest.approx(figures["weighted_rank"] + figures["mlm"], rel=1e-6)


# --- SNCSE ---


def test_margin_loss_of_the_specification():
    difference = torch.tensor([0.85, 0.6, 0.5]) - torch.tensor([0.9, 0.8, 0.95])
    assert margin_loss(difference, 0.1, 0.3).item() == pytest.approx(0.0666667, abs=1e-7)
    rows = [margin_loss(row, 0.1, 0.3).item() for row in difference.split(1)]
    assert rows == pytest.approx([0.05, 0, 0.15], abs=1e-6)


@given(difference=st.floats(-2, 2, width=32), alpha=st.floats(0, 0.5), width=st.floats(0, 0.5))
def test_margin_loss_is_the_distance_from_the_margin(difference, alpha, width):
    nearest = np.clip(difference, -(alpha + width), -alpha)
    value = margin_loss(torch.tensor([difference]), alpha, alpha + width).item()
    assert value == pytest.approx(abs(difference - nearest), abs=1e-6)


def test_negations_get_a_margin_and_are_no_further_negatives(build):
    method = SNCSE(margin_weight=0.5)
    loss = build("bert", method).loss
    z = numbers(3, 3, 6, 32)
    z[1] += 0.5 * z[0]
    value, logged = loss.contrast(z)
    positive = np.diagonal(cosines_by_hand(z[0], z[1]))
    difference = np.diagonal(cosines_by_hand(z[0], z[2])) - positive
    margin = np.mean(np.maximum(difference + 0.1, 0) + np.maximum(-difference - 0.3, 0))
    contrastive = info_nce_by_hand(cosines_by_hand(z[0], z[1]))
    assert contrastive > 0.01
    assert margin > 0.01
    assert value.item() == pytest.approx(contrastive + 0.5 * margin, rel=1e-5)
    assert logged["info_nce"].item() == pytest.approx(contrastive, rel=1e-5)
    assert logged["margin"].item() == pytest.approx(margin, rel=1e-5)
    assert logged["negation_difference"].item() == pytest.approx(difference.mean(), rel=1e-5)
    assert logged["too_near"].item() == pytest.approx(np.mean(difference > -0.1))
    assert logged["too_far"].item() == pytest.approx(np.mean(difference < -0.3))


@given(st.text(alphabet=st.sampled_from("ab.!?\"'-~ \t\n\x85\xa0é。")))
def test_sentences_are_completed_as_the_exported_tokenizer_does(text):
    assert completed(text) == add_full_stop(text, "sncse")


def test_the_authors_lookup_misses_sentences_without_a_full_stop(build):
    made = build("bert", SNCSE())
    rows = {"text": ["He is here", "He is here."], "negation": ["He is not here", "He is not here ."]}
    encode = made.model.tokenizer
    of = [encode(text)["input_ids"] for text in ("Not He is here .", "He is not here .", "He is here .")]
    colon, word = (made.backbone.tokenizer.convert_tokens_to_ids(token) for token in (":", "of"))
    authors, fixed, same = ([word if i == colon else i for i in ids] for ids in of)
    assert SNCSE(lookup="authors").views(rows, made.backbone, 32)[2] == [authors, fixed]
    views = SNCSE().views(rows, made.backbone, 32)
    assert views == [[of[2]] * 2, [same] * 2, [fixed] * 2]


# --- masked language modelling ---


def test_masking_has_berts_proportions(build):
    loss = build("bert", SimCSEWithMLM()).loss
    tokenizer = word_pieces()
    special, size = tokenizer.all_special_ids, len(tokenizer)
    torch.manual_seed(3)
    ids = torch.randint(size, (400, 100))
    before = ids.clone()
    masked, selected = loss._mask(ids)
    assert torch.equal(ids, before)
    is_special = torch.isin(ids, torch.tensor(special))
    assert is_special.sum() > 1000
    assert not selected[is_special].any()
    assert torch.equal(masked[~selected], ids[~selected])
    count, guessed = int((~is_special).sum()), int(selected.sum())
    is_mask, is_same = masked == tokenizer.mask_token_id, masked == ids
    other = selected & ~is_mask & ~is_same
    for found, of, share in (
        (guessed, count, 0.15),
        (int((selected & is_mask).sum()), guessed, 0.8 + 0.1 / size),
        (int((selected & is_same).sum()), guessed, 0.1 + 0.1 / size),
    ):
        assert binomtest(found, of, share).pvalue > 1e-4
    frequencies = torch.bincount(masked[other], minlength=size).numpy()
    frequencies = np.delete(frequencies, tokenizer.mask_token_id)
    assert chisquare(frequencies).pvalue > 1e-4
    assert frequencies[:4].any()  # of the whole vocabulary: special tokens too


def test_masking_by_another_share_and_each_view_for_itself(build):
    made = build("bert", SimCSEWithMLM(mlm_probability=0.5))
    loss = made.loss
    ids = torch.full((2000, 10), 40)
    assert binomtest(int(loss._mask(ids)[1].sum()), ids.numel(), 0.5).pvalue > 1e-4
    view = torch.randint(5, 40, (50, 10))
    _, selected = loss._mask(torch.cat([view, view]))
    assert not torch.equal(selected[:50], selected[50:])


@pytest.mark.parametrize("kind", MASKED)
def test_masked_language_modelling_is_that_of_transformers(build, folders, kind):
    from transformers import AutoModelForMaskedLM

    made = build(kind, SimCSEWithMLM(mlm_weight=0.3, mlm_probability=0.4))
    inputs = {name: made.features[name] for name in ("input_ids", "attention_mask")}
    before = inputs["input_ids"].clone()
    torch.manual_seed(4)
    masked, selected = made.loss._mask(inputs["input_ids"])
    assert selected[:4].any()
    assert selected[4:].any()
    torch.manual_seed(4)
    value = made.loss.auxiliary(inputs)["mlm"]
    oracle = AutoModelForMaskedLM.from_pretrained(folders[kind]).eval()
    labels = before.masked_fill(~selected, -100)
    expected = oracle(masked, attention_mask=inputs["attention_mask"], labels=labels).loss
    assert value.item() == pytest.approx(0.3 * expected.item(), rel=1e-5)
    assert torch.equal(inputs["input_ids"], before)
    value.backward()
    (0.3 * expected).backward()
    gradients = dict(oracle.base_model.named_parameters())
    embeddings = oracle.get_input_embeddings().weight
    for name, parameter in made.model[0].model.named_parameters():
        if parameter.requires_grad and gradients[name] is not embeddings:  # there, they are tied
            torch.testing.assert_close(parameter.grad, gradients[name].grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", MASKED)
def test_the_language_head_is_the_pretrained_one_and_tied_to_nothing(build, folders, kind):
    from transformers import AutoModelForMaskedLM

    made = build(kind, SimCSEWithMLM())
    oracle = AutoModelForMaskedLM.from_pretrained(folders[kind])
    decoder = oracle.get_output_embeddings().weight
    own = {id(p): p for p in made.loss.language_head.parameters()}
    assert any(p.shape == decoder.shape and torch.equal(p, decoder) for p in own.values())
    assert not own.keys() & {id(p) for p in made.model.parameters()}
    assert all(p.requires_grad for p in own.values())
    heads = [name for name, _ in oracle.named_parameters() if not name.startswith(oracle.base_model_prefix)]
    assert len(own) == len(heads) + 1


def test_contrastive_vectors_never_see_a_mask(build):
    made = build("bert", SimCSEWithMLM(mlm_probability=0.9))
    plain = build("bert", SimCSE())
    plain.loss.head.load_state_dict(made.loss.head.state_dict())
    made.loss([made.features])
    expected = plain.loss([plain.features]).item()
    assert made.loss.logged["contrastive"].item() == pytest.approx(expected, rel=1e-6)
    assert made.loss.logged["mlm"] > 0


# --- PromptBERT ---


def bias_by_hand(folder, ids, before, n, first=0):
    """The states of a template whose second part stands n positions further on."""
    from transformers import AutoModel

    tokens = torch.tensor([ids])
    positions = torch.arange(len(ids)) + torch.where(torch.arange(len(ids)) < before, 0, n) + first
    with torch.no_grad():
        return AutoModel.from_pretrained(folder)(tokens, position_ids=positions[None]).last_hidden_state[0]


def biases(made, longest):
    """The tables of both templates, up to a sentence of so many tokens."""
    width = longest + max(map(len, made.loss.empty))
    return torch.stack([table[: longest + 1] for table in made.loss.biases(width, torch.device("cpu"))])


@pytest.mark.parametrize(
    ("kind", "offset", "first"), [("bert", 2, 0), ("distilbert", 2, 0), ("roberta", 2, 2), ("roberta", 0, 0)]
)
def test_the_bias_is_the_templates_state_at_shifted_positions(build, folders, kind, offset, first):
    made = build(kind, PromptBERT(roberta_bias_offset=offset))
    tokenizer = made.backbone.tokenizer
    starts, end = ('This sentence of "', 'This sentence : "'), '" means[MASK].'
    if kind == "roberta":
        starts, end = ("This sentence : '", "The sentence : '"), " ' means<mask>."
    tables = biases(made, 6)
    assert tables.shape == (2, 7, 32)
    for start, table in zip(starts, tables, strict=True):
        head, tail = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (start, end))
        ids = [tokenizer.cls_token_id, *head, *tail, tokenizer.sep_token_id]
        for n in (0, 1, 6):
            states = bias_by_hand(folders[kind], ids, 1 + len(head), n, first)
            state = states[ids.index(tokenizer.mask_token_id)]
            torch.testing.assert_close(table[n], state, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", MASKED)
def test_the_bias_is_the_state_with_tokens_that_nobody_sees(build, kind):
    made = build(kind, PromptBERT())
    ids = torch.tensor([made.model.tokenizer("")["input_ids"]])
    before = ids.shape[1] - 5  # quotation mark, means, mask, full stop, end
    inserted = torch.tensor([[7, 9, 11]])
    row = torch.cat([ids[:, :before], inserted, ids[:, before:]], dim=1)
    mask = torch.ones_like(row)
    mask[:, before : before + 3] = 0
    state = made.model({"input_ids": row, "attention_mask": mask})["sentence_embedding"][0]
    torch.testing.assert_close(biases(made, 8)[0, 3], state, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", MASKED)
def test_an_empty_sentence_says_what_its_template_says(build, kind):
    """Section 2.9: h_T("") = b_T(0), so that nothing is left of it."""
    made = build(kind, PromptBERT(), ["", *SENTENCES])
    inputs = {name: made.features[name] for name in ("input_ids", "attention_mask")}
    vectors = made.loss.encode(inputs, 5)
    left = made.loss.adjust(vectors, inputs)
    torch.testing.assert_close(left[0], torch.zeros(2, 32), rtol=0, atol=2e-6)
    assert left[1:].abs().amax(dim=-1).min() > 1e-2
    alone = build(kind, PromptBERT(), [""])
    own = {name: alone.features[name] for name in inputs}
    assert torch.equal(alone.loss.adjust(alone.loss.encode(own, 1), own), torch.zeros(1, 2, 32))


@pytest.mark.parametrize("kind", MASKED)
def test_each_sentence_loses_the_bias_of_its_own_length(build, kind):
    made = build(kind, PromptBERT())
    inputs = {name: made.features[name] for name in ("input_ids", "attention_mask")}
    vectors = made.loss.encode(inputs, 4)
    tables = biases(made, 40)
    left = made.loss.adjust(vectors, inputs)
    template = len(made.model.tokenizer("")["input_ids"])
    for i, text in enumerate(SENTENCES):
        n = len(made.model.tokenizer(text)["input_ids"]) - template
        for view in range(2):
            torch.testing.assert_close(left[i, view], vectors[i, view] - tables[view, n], rtol=0, atol=1e-5)
    np.testing.assert_allclose(vectors[:, 0].detach(), made.model.encode(SENTENCES), atol=1e-5)


def test_the_head_sees_vectors_less_their_bias_and_ranks_see_vectors(build):
    made = build("bert", PromptBERT(temperature=0.5))
    inputs = {name: made.features[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        vectors = made.loss.encode(inputs, 4)
        outputs = made.loss.head(made.loss.adjust(vectors, inputs))
    expected = info_nce_by_hand(cosines_by_hand(outputs[:, 0], outputs[:, 1]), 0.5)
    assert made.loss([made.features]).item() == pytest.approx(expected, rel=1e-4)
    objective = made.loss.objective(made.features)
    np.testing.assert_allclose(objective.vectors[0].detach(), made.model.encode(SENTENCES), atol=1e-5)
    torch.testing.assert_close(objective.vectors, vectors.transpose(0, 1))
    torch.testing.assert_close(objective.outputs, outputs.transpose(0, 1))


def test_the_bias_is_under_dropout_and_learns(build):
    made = build("bert", PromptBERT())
    made.model.train()
    one, two = (biases(made, 3) for _ in range(2))
    assert (one - two).abs().max() > 1e-2
    one.sum().backward()
    assert made.model[0].model.embeddings.word_embeddings.weight.grad.any()


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("method", [PromptBERT(), SNCSE()])
def test_one_mask_a_row(build, kind, method):
    mask = "<mask>" if kind == "roberta" else "[MASK]"
    made = build(kind, method, [*TEXTS, f"a {mask} in{mask} a sentence", "a cat " * 50])
    rows = made.features["input_ids"]
    assert rows.shape[0] == 7 * (3 if method.name == "sncse" else 2)
    assert (rows == made.backbone.tokenizer.mask_token_id).sum(dim=1).tolist() == [1] * len(rows)


def test_templates_of_two_lengths(tmp_path):
    from transformers import BertTokenizer

    words = sorted(word_pieces().get_vocab().items(), key=lambda item: item[1])
    names = [word for word, _ in words if word != "of"]
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(names)}, model_max_length=64)
    tokenizer.save_pretrained(tmp_path)
    tiny_model("bert", tokenizer).save_pretrained(tmp_path)
    backbone, method = load_backbone(str(tmp_path)), PromptBERT()
    model = method.encoder(backbone)
    loss = method.loss(model, backbone).eval()
    batch = ViewCollator(method, backbone, 32)([{"row": 0, "text": ""}, {"row": 1, "text": "A cat."}])
    inputs = {name: batch[f"views_{name}"] for name in ("input_ids", "attention_mask")}
    left = loss.adjust(loss.encode(inputs, 2), inputs)
    torch.testing.assert_close(left[0], torch.zeros(2, 32), rtol=0, atol=2e-6)


def test_the_bias_begins_at_0_or_2():
    with pytest.raises(InputError, match="roberta_bias_offset"):
        make_method("promptbert", {"roberta_bias_offset": 1}, {})


# --- settings ---


def stand_in(kind, hidden_size=768):
    """A backbone by its configuration alone."""
    from transformers import AutoConfig

    config = AutoConfig.for_model(kind, hidden_size=hidden_size)
    module = SimpleNamespace(model=SimpleNamespace(config=config))
    return Backbone(kind, None, module, None, "causal" if kind == "llama" else "masked", None)


@pytest.mark.parametrize(
    ("method", "kind", "size", "batch_size", "learning_rate"),
    [
        (SimCSE, "bert", 768, 64, 3e-5),
        (SimCSE, "roberta", 768, 512, 1e-5),
        (SimCSE, "bert", 1024, 64, 1e-5),
        (SimCSE, "roberta", 1024, 512, 3e-5),
        (SimCSEWithMLM, "bert", 768, 64, 3e-5),
        (PromptBERT, "bert", 768, 256, 1e-5),
        (PromptBERT, "roberta", 768, 256, 1e-5),
        (SNCSE, "bert", 768, 256, 1e-5),
        (SNCSE, "roberta", 768, 256, 1e-5),
        (SNCSE, "bert", 1024, 128, 5e-6),
        (SNCSE, "roberta", 1024, 128, 5e-6),
    ],
)
def test_settings_of_the_base_methods(method, kind, size, batch_size, learning_rate):
    """Sections 1.2, 2.6, 3.5 and 12."""
    backbone = stand_in(kind, size)
    chosen = TrainConfig().resolved(backbone, method)
    assert (chosen.batch_size, chosen.learning_rate) == (batch_size, learning_rate)
    assert chosen.precision == ("fp32" if method is SNCSE else "fp16")
    assert (chosen.epochs, chosen.max_length, chosen.eval_steps) == (1, 32, 125)
    assert (chosen.weight_decay, chosen.warmup_steps, chosen.max_grad_norm) == (0, 0, 1)
    assert (chosen.seed, chosen.stage2_seed, chosen.max_steps) == (42, 42, None)
    assert chosen.max_seq_length >= 128
    made = make_method(method.name, {}, method.defaults(backbone))
    assert made.temperature == 0.05
    if method is SNCSE:
        assert (made.alpha, made.beta) == (0.1, 0.3)
        assert made.margin_weight == (5e-4 if kind == "roberta" else 1e-3)
    if method is SimCSEWithMLM:
        assert (made.mlm_weight, made.mlm_probability) == (0.1, 0.15)


PAPER = {"lower": 0.5, "upper": 0.8, "combine": "max", "student": "encoder", "reference_size": 100_000}
SUMMED = {"upper": 0.9999, "combine": "sum"}
SCRIPTS = {"student": "head", "reference_size": 10_000}


@pytest.mark.parametrize(
    ("method", "preset", "expected", "with_oneself"),
    [
        (SimCSE, "paper", {**PAPER, "batch_size": 64}, False),
        (PromptBERT, "paper", {**PAPER, "batch_size": 256}, False),
        (SNCSE, "paper", {**PAPER, "batch_size": 256}, False),
        (
            SimCSE,
            "authors-code",
            {**PAPER, **SUMMED, **SCRIPTS, "batch_size": 64, "learning_rate": 3e-5},
            True,
        ),
        (SimCSEWithMLM, "authors-code", {**PAPER, **SUMMED, **SCRIPTS, "batch_size": 64}, True),
        (PromptBERT, "authors-code", {**PAPER, **SCRIPTS, "batch_size": 256, "learning_rate": 1e-5}, False),
        (
            SNCSE,
            "authors-code",
            {**PAPER, **SUMMED, **SCRIPTS, "batch_size": 128, "learning_rate": 1e-5},
            True,
        ),
    ],
)
def test_presets(method, preset, expected, with_oneself):
    """Sections 9.4 and 13."""
    chosen = TrainConfig(preset=preset).resolved(stand_in("bert"), method)
    assert {name: getattr(chosen, name) for name in expected} == expected
    assert (chosen.rank_loss_weight, chosen.rank_weight) == (0.05, 0.1)
    pairs = select_pairs(TARGETS, chosen.lower, chosen.upper, chosen.diagonal)
    assert pairs.diagonal().tolist() == [with_oneself] * 3


def test_what_is_given_goes_before_every_preset():
    given = {"batch_size": 7, "upper": 0.6, "combine": "max", "diagonal": "never", "precision": "bf16"}
    chosen = TrainConfig(preset="authors-code", stage2_seed=0, **given).resolved(stand_in("bert"), SNCSE)
    assert {name: getattr(chosen, name) for name in given} == given
    assert chosen.stage2_seed == 0
