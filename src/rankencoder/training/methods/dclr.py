"""DCLR: drops false negatives and adds noise as negatives."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal

import torch
from pydantic import NonNegativeFloat, NonNegativeInt
from sentence_transformers.util import is_sentence_transformer_model
from torch.nn import functional

from rankencoder.encoder_sources import check_encoder_name, encoder_folder, split_prompt
from rankencoder.encoders import Encoder
from rankencoder.training.backbones.backbone import Backbone, load_backbone
from rankencoder.training.gather import gather
from rankencoder.training.losses.contrastive import ContrastiveLoss, Features, mean_cosines
from rankencoder.training.losses.formulas import cosine_matrix
from rankencoder.training.methods.method import Traits, cite, needed, register
from rankencoder.training.methods.simcse import SimCSE


class DCLRLoss(ContrastiveLoss):
    """The contrastive loss without false negatives, and with noise negatives."""

    method: DCLR

    def contrast(self, outputs: torch.Tensor, features: Features) -> tuple[torch.Tensor, Features]:
        """Return the loss and values to log."""
        method, first = self.method, outputs[0]
        cosines = cosine_matrix(first, outputs[1])
        count = int(method.noise_ratio * len(first))
        noise = torch.randn(count, first.shape[1], device=first.device)
        noise = ascend(noise, first, cosines, method.temperature, method.ascent_steps, method.ascent_size)
        noise_cosines = cosine_matrix(first, noise)
        kept = kept_negatives(gather(features["companion"]), method.threshold)
        pairs, off_diagonal = kept.numel(), max(1, len(kept) * (len(kept) - 1))
        logged = {
            **mean_cosines(cosines),
            "dropped_negatives": (pairs - kept.sum()) / off_diagonal,
            "noise_cosine": noise_cosines.detach().sum() / max(1, noise_cosines.numel()),
        }
        logits = torch.cat([cosines, noise_cosines], dim=1) / method.temperature
        function = dclr_loss if method.formula == "paper" else authors_dclr_loss
        return function(logits, functional.pad(kept, (0, count), value=True)), logged


def kept_negatives(vectors: torch.Tensor, threshold: float) -> torch.Tensor:
    """Return which pairs count: positives, and negatives whose cosine is not above the threshold.

    >>> kept_negatives(torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), 0.7).int().tolist()
    [[1, 0, 1], [0, 1, 1], [1, 1, 1]]
    """
    return (cosine_matrix(vectors, vectors) <= threshold).fill_diagonal_(True)


@torch.no_grad()
def ascend(
    noise: torch.Tensor,
    sentences: torch.Tensor,
    cosines: torch.Tensor,
    temperature: float,
    steps: int,
    size: float,
) -> torch.Tensor:
    """Return noise after normalized gradient ascent on the unweighted contrastive loss.

    For noise h, the gradient is Σ_i p_i (z_i − cos(z_i, h) h) up to a factor, with z and h of unit length and
    p_i the softmax of h in row i. Noise without a gradient stays.

    :param cosines: The sentences' cosines with their second views.
    """
    with torch.autocast(noise.device.type, enabled=False):
        unit = functional.normalize(sentences.float(), dim=1)
        for _ in range(steps):
            direction = functional.normalize(noise, dim=1)
            near = unit @ direction.T
            shares = (torch.cat([cosines, near], dim=1) / temperature).log_softmax(dim=1)
            # normalize the shares of each noise vector, however small, as the factor does not matter
            shares = shares[:, cosines.shape[1] :].softmax(dim=0)
            gradient = shares.T @ unit - (shares * near).sum(dim=0)[:, None] * direction
            noise = noise + size * functional.normalize(gradient, dim=1)
    return noise


def dclr_loss(logits: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return the paper's loss: contrastive, over the kept negatives.

    :param logits: Cosines over temperature of N sentences with N second views and noise: ``[N, N + K]``.
    :param kept: Which of them count, the diagonal always.

    >>> logits = torch.tensor([[18.0, 4.0, 0.0, 1.0], [3.0, 17.0, 0.5, 0.0]]).double()
    >>> kept = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]]).bool()
    >>> f"{dclr_loss(logits, kept):.4e}"
    '4.9891e-07'
    """
    target = torch.arange(len(logits), device=logits.device)
    return functional.cross_entropy(logits.masked_fill(~kept, -torch.inf), target)


def authors_dclr_loss(logits: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return the loss of the authors' code: the mean binary cross-entropy over all softmax entries.

    Negatives that are not kept have a logit of 0, so they still count.

    >>> logits = torch.tensor([[18.0, 4.0, 0.0, 1.0], [3.0, 17.0, 0.5, 0.0]]).double()
    >>> kept = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]]).bool()
    >>> f"{authors_dclr_loss(logits, kept):.6e}"
    '2.532607e-07'
    """
    logits = logits * kept
    odds = logits - _others(logits)  # log P/(1 − P)
    positive = torch.eye(*logits.shape, dtype=torch.bool, device=logits.device)
    return functional.softplus(torch.where(positive, -odds, odds)).mean()


def _others(logits: torch.Tensor) -> torch.Tensor:
    """Return, for each entry, the logsumexp of the other entries of its row.

    The largest entry's is summed without it, as 1 − P may be lost to rounding; the others have P ≤ ½.
    """
    largest = torch.zeros_like(logits, dtype=torch.bool).scatter(1, logits.argmax(dim=1, keepdim=True), True)
    rest = logits.masked_fill(largest, torch.finfo(logits.dtype).min).logsumexp(dim=1, keepdim=True)
    shares = logits.softmax(dim=1).masked_fill(largest, 0)
    return torch.where(largest, rest, logits.logsumexp(dim=1, keepdim=True) + torch.log1p(-shares))


@register
class DCLR(SimCSE):
    """SimCSE's views, with false negatives found by a complementary encoder, and noise as further negatives.

    :param complementary: Folder or hub name of that encoder; a plain transformer is pooled at [CLS].
    :param threshold: φ, the complementary cosine above which two sentences are not negatives.
    :param noise_ratio: k, noise vectors per sentence of the batch.
    :param ascent_steps: Number of gradient ascent steps of the noise.
    :param ascent_size: Size of each step.
    :param formula: Loss of the "paper", or of the "authors" in their code: weights multiply the logits, and
        each entry has a binary cross-entropy. Not reproduced: their code attends to padding, puts BERT's
        pooler before the head, and keeps dropout in the complementary encoder.
    """

    name = "dclr"
    about = "SimCSE without the negatives that another encoder finds too similar, and with noise negatives."
    citation = cite("zhou-etal-2022-debiased")
    loss_class = DCLRLoss
    kinds: ClassVar[tuple[str, ...]] = ("masked",)
    paths: ClassVar[tuple[str, ...]] = ("complementary",)

    complementary: str = "princeton-nlp/unsup-simcse-bert-base-uncased"
    threshold: float = 0.9
    noise_ratio: NonNegativeFloat = 1.0
    ascent_steps: NonNegativeInt = 4
    ascent_size: NonNegativeFloat = 1e-3
    formula: Literal["paper", "authors"] = "paper"

    @classmethod
    def defaults(cls, backbone: Traits) -> dict[str, Any]:
        """Return the authors' settings, though their large models started from SimCSE's weights.

        The complementary encoder of large models is a SimCSE of base size, too.
        """
        roberta, large = backbone.is_roberta, backbone.is_large
        family, case = ("roberta", "") if roberta else ("bert", "-uncased")
        base = {"batch_size": 128, "learning_rate": 3e-5, "epochs": 3.0}
        bigger = {"batch_size": 64, "learning_rate": 1e-5 if roberta else 3e-5, "epochs": 1.0}
        return {
            **(bigger if large else base),
            "precision": "fp32",
            "complementary": f"princeton-nlp/unsup-simcse-{family}-base{case}",
            "threshold": 0.85 if roberta else 0.9,
            "noise_ratio": (5.0 if large else 2.5) if roberta else (3.0 if large else 1.0),
        }

    @needed("a complementary encoder", "dclr", "complementary", "the folder 'base' of a SimCSE run")
    def check(self, backbone: Backbone) -> None:
        """Check that the complementary encoder can be loaded."""
        check_encoder_name(self.complementary)
        self.companion("cpu")

    def companion(self, device: str | None) -> Encoder:
        """Return the complementary encoder."""
        path, prompt = split_prompt(self.complementary)
        name = encoder_folder(path)
        cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")  # like sentence-transformers
        if is_sentence_transformer_model(name, cache_folder=cache):
            return Encoder(name, prompt=prompt, device=device)
        model = SimCSE().encoder(load_backbone(name))
        encoder = Encoder(model.to(device or model.device), prompt=prompt)
        encoder.name = self.complementary
        return encoder
