"""ConSERT: two augmentations of the token embeddings are the two views."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Literal

import torch
from pydantic import PositiveFloat
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, WeightedLayerPooling
from torch import nn
from torch.nn import functional

from rankencoder.errors import InputError
from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.losses.contrastive import ContrastiveLoss, Features, mean_cosines
from rankencoder.training.losses.formulas import cosine_matrix
from rankencoder.training.methods.method import Method, Share, Traits, cite, register

Augmentation = Literal["none", "shuffle", "token-cutoff", "feature-cutoff", "dropout"]


def nt_xent(a: torch.Tensor, b: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return the contrastive loss in both directions; half of the negatives are from the same view.

    >>> a, b = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.8, 0.6], [0.6, 0.8]])
    >>> f"{nt_xent(a, b, 0.1):.5f}"
    '1.93360'
    """
    rows = torch.cat([a, b])
    itself = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    logits = (cosine_matrix(rows, rows) / temperature).masked_fill(itself, -torch.inf)
    partners = torch.arange(len(rows), device=rows.device).roll(len(a))
    return 2 * functional.cross_entropy(logits, partners)  # the mean over both directions, as a sum


def positions_of(mask: torch.Tensor, padding: int | None) -> torch.Tensor:
    """Return a model's position ids: from 0, or from after the padding id as in RoBERTa.

    >>> mask = torch.tensor([[1, 1, 1, 0]])
    >>> positions_of(mask, None).tolist(), positions_of(mask, 1).tolist()
    ([[0, 1, 2, 3]], [[2, 3, 4, 1]])
    """
    if padding is None:
        return torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    return mask.cumsum(dim=1) * mask + padding


def shuffle(positions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return position ids permuted over each row's tokens, [CLS] and [SEP] included.

    With RoBERTa the authors count from 0; these are the model's own positions.

    :param mask: Attention mask, with padding on the right, which keeps its positions.
    """
    keys = torch.rand(mask.shape, device=mask.device).masked_fill(mask == 0, torch.inf)
    return positions.gather(1, keys.argsort(dim=1, stable=True))


def choose(eligible: torch.Tensor, count: torch.Tensor | int) -> torch.Tensor:
    """Return a random choice of exactly ``count`` of each row's eligible places."""
    keys = torch.rand(eligible.shape, device=eligible.device).masked_fill(~eligible, torch.inf)
    return keys.argsort(dim=1).argsort(dim=1) < count


def token_cutoff(embeddings: torch.Tensor, mask: torch.Tensor, rate: float) -> torch.Tensor:
    """Return embeddings with int(rate · n) of a row's n tokens set to 0.

    >>> mask = torch.tensor([[1, 1, 1, 1, 1, 0]])
    >>> token_cutoff(torch.ones(1, 6, 3), mask, 0.4).sum(dim=1).tolist()
    [[4.0, 4.0, 4.0]]
    """
    count = (rate * mask.sum(dim=1, keepdim=True).double()).long()
    return embeddings.masked_fill(choose(mask.bool(), count)[:, :, None], 0)


def feature_cutoff(embeddings: torch.Tensor, mask: torch.Tensor, rate: float) -> torch.Tensor:
    """Return embeddings with int(rate · d) of the d features set to 0, drawn for each row.

    >>> feature_cutoff(torch.ones(1, 2, 5), torch.ones(1, 2), 0.2).sum(dim=2).tolist()
    [[4.0, 4.0]]
    """
    rows, _, features = embeddings.shape
    every = torch.ones(rows, features, dtype=torch.bool, device=embeddings.device)
    return embeddings.masked_fill(choose(every, int(rate * features))[:, None], 0)


def number_dropout(embeddings: torch.Tensor, mask: torch.Tensor, rate: float) -> torch.Tensor:
    """Return embeddings with int(rate · n · d) values of a row's n tokens set to 0, without rescaling.

    >>> number_dropout(torch.ones(1, 3, 4), torch.tensor([[1, 1, 0]]), 0.5).sum().item()
    8.0
    """
    eligible = mask.bool()[:, :, None].expand_as(embeddings).flatten(1)
    count = (rate * mask.sum(dim=1, keepdim=True).double() * embeddings.shape[2]).long()
    return embeddings.masked_fill(choose(eligible, count).view_as(embeddings), 0)


_CHANGES = {"token-cutoff": token_cutoff, "feature-cutoff": feature_cutoff, "dropout": number_dropout}


class ConSERTLoss(ContrastiveLoss):
    """NT-Xent of the augmented views, mean-pooled from the last layer."""

    method: ConSERT
    head_class = nn.Identity

    def __init__(self, model: SentenceTransformer, method: ConSERT, backbone: Backbone) -> None:
        super().__init__(model, method)
        self.on_embeddings = backbone.embeddings.register_forward_hook
        self.padding: int | None = getattr(backbone.embeddings, "padding_idx", None)
        self.keeps_pooling = bool(backbone.pooling)

    def encode(self, inputs: Features, sentences: int) -> torch.Tensor:
        """Return the vectors of the augmented views, ``[N, 2, dimension]``."""
        mask = inputs["attention_mask"]
        views = list(zip((self.method.first, self.method.second), mask.chunk(2), strict=True))
        plain = [(name, positions_of(part, self.padding), part) for name, part in views]
        positions = [shuffle(row, part) if name == "shuffle" else row for name, row, part in plain]

        def augment(module: nn.Module, arguments: Any, output: torch.Tensor) -> torch.Tensor:
            parts = zip(views, output.chunk(2), strict=True)
            return torch.cat([self._augment(name, part, of) for (name, of), part in parts])

        hook = self.on_embeddings(augment)
        try:
            output = self.model({**inputs, "position_ids": torch.cat(positions)})
        finally:
            hook.remove()
        if self.keeps_pooling:
            return torch.stack(output["sentence_embedding"].chunk(2), dim=1)
        summed = (output["all_layer_embeddings"][-1].float() * mask[:, :, None]).sum(dim=1)
        return torch.stack((summed / mask.sum(dim=1, keepdim=True)).chunk(2), dim=1)

    def _augment(self, name: Augmentation, embeddings: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        change = _CHANGES.get(name)
        rate = self.method.dropout_rate if name == "dropout" else self.method.cutoff_rate
        return embeddings if change is None else change(embeddings, mask, rate)

    def contrast(self, outputs: torch.Tensor, features: Features) -> tuple[torch.Tensor, Features]:
        """Return the weighted loss, and values to log."""
        loss = nt_xent(outputs[0], outputs[1], self.method.temperature)
        return self.method.loss_weight * loss, mean_cosines(cosine_matrix(outputs[0], outputs[1]))


@register
class ConSERT(Method):
    """Augmentations instead of dropout, mean pooling, and no training head.

    The paper's adversarial augmentation is left out: it needs labels.

    The authors trained on the texts of the STS sets, with a learning rate chosen for them; other text needs
    another one. They used AdamW without bias correction, an ε of 1e-6 and seed 1; here AdamW is PyTorch's.

    As in the authors' results, training pools the last layer, and the encoder the last two. A
    SentenceTransformer keeps its own pooling, in training too.

    :param first: Augmentation of view 1.
    :param second: Augmentation of view 2.
    :param cutoff_rate: Share of tokens or features to cut off.
    :param dropout_rate: Share of embedding values that dropout sets to 0.
    :param loss_weight: Weight of the loss.
    :param own_dropout: Keep the backbone's dropout, as the authors do for large models.
    """

    name = "consert"
    about = "Token embeddings with features cut off, against shuffled positions; the mean of two layers."
    citation = cite("yan-etal-2021-consert")
    loss_class = ConSERTLoss
    dropout: ClassVar[float | None] = 0.0

    temperature: PositiveFloat = 0.1
    first: Augmentation = "feature-cutoff"
    second: Augmentation = "shuffle"
    cutoff_rate: Share = 0.2
    dropout_rate: Share = 0.2
    loss_weight: PositiveFloat = 0.15
    own_dropout: bool = False

    def __post_init__(self) -> None:
        if self.own_dropout:
            object.__setattr__(self, "dropout", None)

    @classmethod
    def defaults(cls, backbone: Traits) -> dict[str, Any]:
        """Return the authors' settings."""
        large = {"epochs": 25, "first": "none", "own_dropout": True} if backbone.is_large else {}
        return {
            "batch_size": 96,
            "learning_rate": 5e-7,
            "max_length": 64,
            "weight_decay": 0.01,
            "warmup_steps": 0.1,
            "epochs": 10,
            "eval_steps": 200,
            "patience": 10,
            **large,
        }

    def check(self, backbone: Backbone) -> None:
        """Check that the backbone has embeddings and positions to augment."""
        takes = inspect.signature(backbone.module.model.forward).parameters
        if backbone.embeddings is None or "position_ids" not in takes:
            raise InputError(
                f"method 'consert' cannot train {backbone.name!r}: it has no embeddings to augment"
            )

    def encoder(self, backbone: Backbone) -> SentenceTransformer:
        """Return backbone and mean pooling of its last two layers, or its own pooling."""
        if backbone.pooling:
            return backbone.with_own_pooling()
        backbone.config.output_hidden_states = True
        layers = int(backbone.config.num_hidden_layers)
        both = WeightedLayerPooling(backbone.dimension, num_hidden_layers=layers, layer_start=layers - 1)
        pooling = Pooling(backbone.dimension, "mean")
        return SentenceTransformer(modules=[backbone.module, both.requires_grad_(False), pooling])
