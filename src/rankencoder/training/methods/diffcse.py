"""DiffCSE: SimCSE with a discriminator that detects replaced tokens from the sentence vector."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import torch
from pydantic import NonNegativeFloat
from sentence_transformers import SentenceTransformer
from torch import nn
from torch.nn import functional
from transformers import AutoTokenizer

from rankencoder.encoder_sources import check_hub
from rankencoder.errors import InputError, first_line
from rankencoder.training.backbones.backbone import Backbone, TokenMask, load_masked_language_model
from rankencoder.training.backbones.templates import check_mask_token
from rankencoder.training.losses.contrastive import ContrastiveLoss, Features, Frozen
from rankencoder.training.methods.method import Share, Traits, cite, needed, register
from rankencoder.training.methods.simcse import SimCSE


def _vocabulary(tokenizer: Any, config: Any) -> tuple[dict[str, int], list[int], int]:
    return tokenizer.get_vocab(), tokenizer.all_special_ids, config.vocab_size


class Projector(nn.Sequential):
    """The training head, ``[N, 2, dimension]``, with batch norm over both views together."""

    def __init__(self, dimension: int) -> None:
        first = nn.Linear(dimension, 2 * dimension, bias=False)
        second = nn.Linear(2 * dimension, dimension, bias=False)
        for linear in (first, second):
            nn.init.normal_(linear.weight, std=0.02)
        super().__init__(
            nn.Flatten(0, 1),
            first,
            nn.BatchNorm1d(2 * dimension, track_running_stats=False),
            nn.ReLU(),
            second,
            nn.BatchNorm1d(dimension, affine=False, track_running_stats=False),
            nn.Unflatten(0, (-1, 2)),
        )


class DiffCSELoss(ContrastiveLoss):
    """The contrastive loss plus that of detecting replaced tokens in both views."""

    method: DiffCSE
    head_class = Projector

    def __init__(self, model: SentenceTransformer, method: DiffCSE, backbone: Backbone) -> None:
        super().__init__(model, method)
        self.mask = TokenMask(backbone, method.mask_ratio)
        self.generator = Frozen(method.load_generator(backbone))
        self.generator.frozen.train(method.generator_dropout)
        self.discriminator = Discriminator(backbone)

    def auxiliary(self, inputs: Features, outputs: torch.Tensor, logged: Features) -> Features:
        """Return the weighted mean detection loss over this process' tokens."""
        real = inputs["attention_mask"].bool()
        edited = self.edit(inputs)
        replaced = edited != inputs["input_ids"]
        logits = self.discriminator({**inputs, "input_ids": edited}, outputs.flatten(0, 1))
        right = (logits.detach().argmax(dim=-1) == 1) == replaced
        logged["replaced"] = share(replaced, real)
        logged["replaced_accuracy"] = share(right, replaced)
        logged["kept_accuracy"] = share(right, real & ~replaced)
        counted = torch.ones_like(real) if self.method.padding_counts else real
        return {"rtd": self.method.rtd_weight * detection_loss(logits, replaced, counted)}

    @torch.no_grad()
    def edit(self, inputs: Features) -> torch.Tensor:
        """Return the sentences with masked tokens filled in, except for the first token and padding."""
        ids = inputs["input_ids"]
        logits = self.generator(**{**inputs, "input_ids": self.mask(ids)[0]}).logits
        if self.method.sampling == "sample":
            logits = logits.float()
            logits = logits - torch.empty_like(logits).exponential_().log()  # Gumbel's noise
        changes = inputs["attention_mask"].bool() & (torch.arange(ids.shape[1], device=ids.device) > 0)
        return torch.where(changes, logits.argmax(dim=-1), ids)


def detection_loss(logits: torch.Tensor, replaced: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the classes kept and replaced over the counted tokens.

    >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 1.0], [9.0, 0.0]]])
    >>> replaced, counted = torch.tensor([[0, 1, 0]]), torch.tensor([[1, 1, 0]])
    >>> f"{detection_loss(logits, replaced, counted):.4f}"  # (log 2 + log(1 + 1/e)) / 2
    '0.5032'
    """
    losses = functional.cross_entropy(logits.float().transpose(1, 2), replaced.long(), reduction="none")
    return (losses * counted).sum() / counted.sum()


def share(these: torch.Tensor, among: torch.Tensor) -> torch.Tensor:
    """Return the share of places ``among`` that are also in ``these``; 0 if there are none."""
    return (these & among).sum() / among.sum().clamp(min=1)


class Discriminator(nn.Module):
    """A trained copy of the backbone that classifies each token as kept or replaced.

    The original sentence's vector replaces the embedding of its first token.
    """

    vectors: torch.Tensor | None = None

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.model: Any = copy.deepcopy(backbone.module.model).train()
        if hasattr(self.model, "pooler"):
            self.model.pooler = None  # unused
        self.classes = nn.Linear(backbone.dimension, 2)
        self.model.embeddings.register_forward_hook(self._put_vectors)

    def forward(self, inputs: Features, vectors: torch.Tensor) -> torch.Tensor:
        """Return the logits of kept and replaced for each token, given the sentence vectors."""
        self.vectors = vectors
        states = self.model(**inputs).last_hidden_state
        self.vectors = None
        logits: torch.Tensor = self.classes(states)
        return logits

    def _put_vectors(self, _: nn.Module, __: Any, embedded: torch.Tensor) -> torch.Tensor:
        assert self.vectors is not None
        return torch.cat([self.vectors[:, None].to(embedded.dtype), embedded[:, 1:]], dim=1)


@register
class DiffCSE(SimCSE):
    """SimCSE plus replaced token detection, conditioned on the sentence vector.

    :param generator: Folder or hub name of the masked language model that fills in masked tokens, with the
        backbone's vocabulary.
    :param mask_ratio: ρ, share of tokens to mask.
    :param rtd_weight: λ, weight of the detection loss.
    :param sampling: "argmax" for the generator's likeliest tokens, as in the authors' code, or "sample", as
        in the paper.
    :param generator_dropout: Keep the generator's dropout on, as in their code.
    :param padding_counts: Count padding, which is never replaced, in the detection loss, as in their code.
    """

    name = "diffcse"
    about = "SimCSE plus a discriminator that detects replaced tokens from the sentence vector."
    citation = cite("chuang-etal-2022-diffcse")
    loss_class = DiffCSELoss
    kinds: ClassVar[tuple[str, ...]] = ("masked",)
    paths: ClassVar[tuple[str, ...]] = ("generator",)

    generator: str = "distilbert-base-uncased"
    mask_ratio: Share = 0.3
    rtd_weight: NonNegativeFloat = 0.005
    sampling: Literal["argmax", "sample"] = "argmax"
    generator_dropout: bool = False
    padding_counts: bool = True

    @classmethod
    def defaults(cls, backbone: Traits) -> dict[str, Any]:
        """Return the authors' settings for similarity, which they have for base models only."""
        roberta = backbone.is_roberta
        return {
            "batch_size": 64,
            "learning_rate": 1e-5 if roberta else 7e-6,
            "epochs": 2.0,
            "generator": "distilroberta-base" if roberta else "distilbert-base-uncased",
            "mask_ratio": 0.2 if roberta else 0.3,
        }

    def check(self, backbone: Backbone) -> None:
        """Check that the generator can be loaded and the backbone can be a discriminator."""
        check_mask_token(backbone.tokenizer)
        widths = {
            getattr(backbone.config, "embedding_size", backbone.dimension),
            self.encoder(backbone).get_embedding_dimension(),
        }
        if backbone.embeddings is None or widths != {backbone.dimension}:
            raise InputError(
                f"method 'diffcse' cannot train {backbone.name!r}: its embeddings have no room for a "
                "sentence vector"
            )
        self.load_generator(backbone)

    @needed(
        "a generator, a masked language model with the backbone's vocabulary",
        *("diffcse", "generator", "the backbone"),
    )
    def load_generator(self, backbone: Backbone) -> nn.Module:
        """Return the generator."""
        name = self.generator
        revision = backbone.revision if name == backbone.name else None
        if not Path(name).exists():
            check_hub(name, revision, what="generator")
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=False)
            model, has_head = load_masked_language_model(name, revision)
        except Exception as error:  # libraries raise anything for a damaged or foreign folder
            raise InputError(f"cannot load generator {name!r}: {first_line(error)}") from error
        if not has_head:
            raise InputError(f"generator {name!r} has no language modeling head")
        if _vocabulary(tokenizer, model.config) != _vocabulary(backbone.tokenizer, backbone.config):
            raise InputError(f"generator {name!r} has a different vocabulary")
        return cast(nn.Module, model)
