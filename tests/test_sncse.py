"""SNCSE's margin, against the specification's numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from loss_oracles import cosines_by_hand, info_nce_by_hand, numbers

from rankencoder.errors import InputError
from rankencoder.training.methods import SNCSE
from rankencoder.training.methods.sncse import margin_loss


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


def test_negations_get_a_margin_and_are_no_further_negatives(build_loss):
    method = SNCSE(margin_weight=0.5)
    loss = build_loss("bert", method).loss
    z = numbers(3, 3, 6, 32)
    z[1] += 0.5 * z[0]
    value, logged = loss.contrast(z, {})
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


def test_the_authors_lookup_misses_sentences_without_a_full_stop(build_loss):
    made = build_loss("bert", SNCSE())
    rows = {"text": ["He is here", "He is here."], "negation": ["He is not here", "He is not here ."]}
    encode = made.model.tokenizer
    of = [encode(text)["input_ids"] for text in ("Not He is here .", "He is not here .", "He is here .")]
    colon, word = (made.backbone.tokenizer.convert_tokens_to_ids(token) for token in (":", "of"))
    authors, fixed, same = ([word if i == colon else i for i in ids] for ids in of)
    assert SNCSE(lookup="authors").views(rows, made.backbone, 32)[2] == [authors, fixed]
    views = SNCSE().views(rows, made.backbone, 32)
    assert views == [[of[2]] * 2, [same] * 2, [fixed] * 2]


def test_a_sentence_needs_room_beside_its_template(build_loss):
    made = build_loss("bert", SNCSE())
    rows = {"text": ["A cat."], "negation": ["Not A cat ."]}
    with pytest.raises(InputError, match=r"max_length 8 leaves no room for a sentence: templates take \d+"):
        SNCSE().views(rows, made.backbone, 8)
