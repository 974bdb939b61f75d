"""Masked language modeling beside SimCSE, against transformers."""

import numpy as np
import pytest
import torch
from loss_oracles import MASKED
from scipy.stats import binomtest, chisquare
from tiny_backbones import tiny_model, word_pieces

from rankencoder.errors import TrainingWarning
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.methods import SimCSE, SimCSEWithMLM


def test_masking_has_berts_proportions(build_loss):
    loss = build_loss("bert", SimCSEWithMLM()).loss
    tokenizer = word_pieces()
    special, size = tokenizer.all_special_ids, len(tokenizer)
    torch.manual_seed(3)
    ids = torch.randint(size, (400, 100))
    before = ids.clone()
    masked, selected = loss.mask(ids)
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


def test_masking_by_another_share_and_each_view_for_itself(build_loss):
    made = build_loss("bert", SimCSEWithMLM(mlm_probability=0.5))
    loss = made.loss
    ids = torch.full((2000, 10), 40)
    assert binomtest(int(loss.mask(ids)[1].sum()), ids.numel(), 0.5).pvalue > 1e-4
    view = torch.randint(5, 40, (50, 10))
    _, selected = loss.mask(torch.cat([view, view]))
    assert not torch.equal(selected[:50], selected[50:])


@pytest.mark.parametrize("kind", MASKED)
def test_masked_language_modeling_is_that_of_transformers(build_loss, masked_models, kind):
    from transformers import AutoModelForMaskedLM

    made = build_loss(kind, SimCSEWithMLM(mlm_weight=0.3, mlm_probability=0.4))
    inputs = {name: made.features[name] for name in ("input_ids", "attention_mask")}
    before = inputs["input_ids"].clone()
    torch.manual_seed(4)
    masked, selected = made.loss.mask(inputs["input_ids"])
    assert selected[:4].any()
    assert selected[4:].any()
    torch.manual_seed(4)
    value = made.loss.auxiliary(inputs, torch.empty(0), {})["mlm"]
    oracle = AutoModelForMaskedLM.from_pretrained(masked_models[kind]).eval()
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
def test_the_language_head_is_the_pretrained_one_and_tied_to_nothing(build_loss, masked_models, kind):
    from transformers import AutoModelForMaskedLM

    made = build_loss(kind, SimCSEWithMLM())
    oracle = AutoModelForMaskedLM.from_pretrained(masked_models[kind])
    decoder = oracle.get_output_embeddings().weight
    own = {id(p): p for p in made.loss.language_head.parameters()}
    assert any(p.shape == decoder.shape and torch.equal(p, decoder) for p in own.values())
    assert not own.keys() & {id(p) for p in made.model.parameters()}
    assert all(p.requires_grad for p in own.values())
    heads = [name for name, _ in oracle.named_parameters() if not name.startswith(oracle.base_model_prefix)]
    assert len(own) == len(heads) + 1


def test_contrastive_vectors_never_see_a_mask(build_loss):
    made = build_loss("bert", SimCSEWithMLM(mlm_probability=0.9))
    plain = build_loss("bert", SimCSE())
    plain.loss.head.load_state_dict(made.loss.head.state_dict())
    made.loss([made.features])
    expected = plain.loss([plain.features]).item()
    assert made.loss.logged["contrastive"].item() == pytest.approx(expected, rel=1e-6)
    assert made.loss.logged["mlm"] > 0


def test_a_backbone_without_a_language_head_is_warned_of(tmp_path):
    tokenizer = word_pieces()
    tokenizer.save_pretrained(tmp_path)
    tiny_model("bert", tokenizer).save_pretrained(tmp_path)
    backbone = load_backbone(str(tmp_path))
    method = SimCSEWithMLM()
    with pytest.warns(TrainingWarning, match="has no language modeling head: training one from scratch"):
        method.loss(method.encoder(backbone), backbone)
