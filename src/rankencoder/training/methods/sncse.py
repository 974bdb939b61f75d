"""SNCSE: negated sentences are soft negatives, less similar by a margin."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import NonNegativeFloat
from sentence_transformers import SentenceTransformer
from torch.nn import functional

from rankencoder.errors import InputError
from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.backbones.templates import (
    Template,
    prompted_encoder,
    templated_ids,
    training_tokenizer,
)
from rankencoder.training.losses.contrastive import ContrastiveLoss, Features
from rankencoder.training.methods.method import Method, Rows, Traits, Views, cite, register
from rankencoder.training.negation import load_parser, negate_sentences

if TYPE_CHECKING:
    from datasets import Dataset

_COLON = Template('This sentence : " ', ' " means {mask} .')
_OF = Template('This sentence of " ', ' " means {mask} .')


def margin_loss(difference: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    """Return the bidirectional margin loss: 0 if the negation is less similar by alpha to beta.

    :param difference: Cosine with the negation minus cosine with the other view.

    >>> difference = torch.tensor([0.85, 0.60, 0.50]) - torch.tensor([0.90, 0.80, 0.95])
    >>> f"{margin_loss(difference, 0.1, 0.3):.7f}"
    '0.0666667'
    """
    return (functional.relu(difference + alpha) + functional.relu(-difference - beta)).mean()


class SNCSELoss(ContrastiveLoss):
    """The contrastive loss of views 1 and 2 plus the margin loss of view 3, the negation."""

    method: SNCSE

    def contrast(self, outputs: torch.Tensor, features: Features) -> tuple[torch.Tensor, Features]:
        """Return the sum of both losses, and values to log."""
        contrastive, logged = super().contrast(outputs, features)
        first, second, negation = functional.normalize(outputs.float(), dim=-1)
        difference = (first * negation).sum(dim=-1) - (first * second).sum(dim=-1)
        margin = margin_loss(difference, self.method.alpha, self.method.beta)
        logged["info_nce"], logged["margin"] = contrastive.detach(), margin.detach()
        logged["negation_difference"] = difference.detach().mean()
        logged["too_near"] = (difference.detach() > -self.method.alpha).float().mean()
        logged["too_far"] = (difference.detach() < -self.method.beta).float().mean()
        return contrastive + self.method.margin_weight * margin, logged


@register
class SNCSE(Method):
    """Three views: the sentence in two templates, and its negation.

    :param margin_weight: λ, weight of the margin loss.
    :param alpha: Minimum by which the negation's cosine should be below the sentence's.
    :param beta: Maximum by which it should be below.
    :param lookup: "fixed", or "authors": for sentences without final punctuation their code finds no
        negation, and prepends "Not".
    :param parser: spaCy model for dependency parsing, a package or folder.
    """

    name = "sncse"
    about = "PromptBERT's views without denoising, and negated sentences as soft negatives."
    citation = cite("wang-dou-2023-sncse")
    loss_class = SNCSELoss

    paths: ClassVar[tuple[str, ...]] = ("parser",)

    margin_weight: NonNegativeFloat = 1e-3
    alpha: float = 0.1
    beta: float = 0.3
    lookup: Literal["fixed", "authors"] = "fixed"
    parser: str = "en_core_web_sm"

    def __post_init__(self) -> None:
        if self.alpha > self.beta:
            raise InputError(f"option alpha of method 'sncse' is {self.alpha}, above beta, {self.beta}")

    @classmethod
    def defaults(cls, backbone: Traits) -> dict[str, Any]:
        """Return the authors' settings."""
        return {
            "batch_size": 128 if backbone.is_large else 256,
            "learning_rate": 5e-6 if backbone.is_large else 1e-5,
            "precision": "fp32",
            "margin_weight": 5e-4 if backbone.is_roberta else 1e-3,
        }

    def encoder(self, backbone: Backbone) -> SentenceTransformer:
        """Return backbone and [MASK] pooling, with the template in the tokenizer."""
        return prompted_encoder(backbone, _COLON, full_stop="sncse")

    def check(self, backbone: Backbone) -> None:
        """Check that the parser is available."""
        load_parser(self.parser)

    def prepare(self, sentences: Dataset, *, fingerprint: str, progress: bool) -> Dataset:
        """Add the negations."""
        from datasets import concatenate_datasets

        negations = negate_sentences(
            sentences["text"], fingerprint=fingerprint, parser=self.parser, progress=progress
        )
        return concatenate_datasets([sentences, negations], axis=1)

    def views(self, rows: Rows, backbone: Backbone, max_length: int) -> Views:
        """Return the sentence in both templates and its negation in the second, within ``max_length``."""
        tokenizers = [training_tokenizer(backbone.tokenizer, template, "sncse") for template in (_COLON, _OF)]
        longest = max(tokenizer.num_special_tokens_to_add() for tokenizer in tokenizers)
        if max_length <= longest:
            raise InputError(
                f"max_length {max_length} leaves no room for a sentence: templates take {longest}"
            )
        texts, negations = rows["text"], rows["negation"]
        if self.lookup == "authors":
            pairs = zip(texts, negations, strict=True)
            negations = [
                right if text.rstrip()[-1:] in string.punctuation else f"Not {text}" for text, right in pairs
            ]
        views = ((texts, _COLON), (texts, _OF), (negations, _OF))
        cut: dict[str, Any] = {"max_length": max_length - longest, "full_stop": "sncse"}
        return [templated_ids(backbone.tokenizer, *view, **cut) for view in views]
