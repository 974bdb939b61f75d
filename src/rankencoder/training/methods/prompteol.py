"""PromptEOL: the last token of a prompt that asks a causal language model for one word."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError
from sentence_transformers import SentenceTransformer
from torch import nn
from torch.nn import functional

from rankencoder.errors import InputError
from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.backbones.templates import (
    Template,
    prompted_encoder,
    templated_ids,
    training_tokenizer,
)
from rankencoder.training.losses.contrastive import ContrastiveLoss
from rankencoder.training.methods.method import Method, Rows, Share, Traits, Views, cite, register

TEXT = "{text}"


def _prompt(prompt: str) -> str:
    _, found, after = prompt.partition(TEXT)
    if not found or not after.strip() or "{" in after:
        raise PydanticCustomError("prompt", f"a text with {TEXT} once and more text after it")
    return prompt


Prompt = Annotated[str, AfterValidator(_prompt)]


class PromptEOLLoss(ContrastiveLoss):
    """The contrastive loss of the encoder's own vectors."""

    head_class = nn.Identity


def blocks(model: nn.Module) -> Iterator[nn.Module]:
    """Yield attention and MLP of each layer, that is, children of a layer with children."""
    for stack in model.children():
        if isinstance(stack, nn.ModuleList):
            for layer in stack:
                yield from (block for block in layer.children() if any(True for _ in block.children()))


def drop_output(module: nn.Module, arguments: Any, output: Any, *, rate: float) -> Any:
    """Apply dropout to the first output of a block, in training."""
    if isinstance(output, torch.Tensor):
        return functional.dropout(output, rate, module.training)
    return functional.dropout(output[0], rate, module.training), *output[1:]


@register
class PromptEOL(Method):
    """Two prompts give the two views, without a training head. The encoder uses the first prompt.

    Causal language models have no dropout, or only on attention weights. In training, dropout follows the
    attention and MLP of each layer; the saved model has none.

    :param first: Prompt of view 1 and of the encoder; "{text}" stands for the sentence.
    :param second: Prompt of view 2.
    :param dropout_rate: Dropout of attention and MLP outputs in training.
    """

    name = "prompteol"
    about = "The sentence in two prompts, the state of the last token; for causal language models."
    citation = cite("jiang-etal-2024-scaling")
    loss_class = PromptEOLLoss
    kinds: ClassVar[tuple[str, ...]] = ("causal",)
    dropout: ClassVar[float | None] = 0.0  # in the configuration, which is saved

    first: Prompt = f'This sentence : "{TEXT}" means in one word:"'
    second: Prompt = f'This sentence of "{TEXT}" means one word that is:"'
    dropout_rate: Share = 0.1

    @classmethod
    def defaults(cls, backbone: Traits) -> dict[str, Any]:
        """Return our settings for small models; Gemma's activations overflow fp16."""
        return {"batch_size": 512, "learning_rate": 2e-5, "precision": "bf16"}

    @property
    def templates(self) -> list[Template]:
        """The templates of view 1 (and the encoder) and view 2."""
        halves = (prompt.split(TEXT) for prompt in (self.first, self.second))
        return [Template(before, after, bos=True) for before, after in halves]

    def check(self, backbone: Backbone) -> None:
        """Check that there are layers to apply dropout to."""
        if not list(blocks(backbone.module.model)):
            raise InputError(
                f"method 'prompteol' cannot train {backbone.name!r}: it has no layers of attention and MLP"
            )

    def encoder(self, backbone: Backbone) -> SentenceTransformer:
        """Return backbone and last token pooling, with the prompt in the tokenizer."""
        for block in blocks(backbone.module.model):
            block.register_forward_hook(partial(drop_output, rate=self.dropout_rate))
        return prompted_encoder(backbone, self.templates[0])

    def views(self, rows: Rows, backbone: Backbone, max_length: int) -> Views:
        """Return the sentence, truncated to ``max_length`` tokens, in both prompts."""
        return [
            templated_ids(backbone.tokenizer, rows["text"], template, max_length=max_length)
            for template in self.templates
        ]

    def loss(self, model: SentenceTransformer, backbone: Backbone) -> ContrastiveLoss:
        """Return the contrastive loss of the last tokens' states."""
        for template in self.templates:
            training_tokenizer(backbone.tokenizer, template)  # cached before workers are forked
        return super().loss(model, backbone)
