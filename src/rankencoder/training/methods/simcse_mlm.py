"""SimCSE with an auxiliary masked language modeling loss, for transfer tasks."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, ClassVar, cast

import torch
from pydantic import Field, NonNegativeFloat
from sentence_transformers import SentenceTransformer
from torch import nn
from torch.nn import functional
from transformers.modeling_outputs import BaseModelOutput

from rankencoder.errors import TrainingWarning
from rankencoder.training.backbones.backbone import Backbone, TokenMask, load_masked_language_model
from rankencoder.training.backbones.templates import check_mask_token
from rankencoder.training.gather import gather, world_size
from rankencoder.training.losses.contrastive import ContrastiveLoss, Features
from rankencoder.training.methods.method import register
from rankencoder.training.methods.simcse import SimCSE


class MlmContrastiveLoss(ContrastiveLoss):
    """The contrastive loss plus the loss of predicting masked tokens in both views.

    Masked inputs take a second forward pass; the contrastive vectors never see a mask.
    """

    method: SimCSEWithMLM

    def __init__(self, model: SentenceTransformer, method: SimCSEWithMLM, backbone: Backbone) -> None:
        super().__init__(model, method)
        self.mask = TokenMask(backbone, method.mlm_probability)
        self.language_head = LanguageHead(backbone)

    def auxiliary(self, inputs: Features, outputs: torch.Tensor, logged: Features) -> Features:
        """Return the weighted mean loss of predicting masked tokens, over all processes."""
        ids, selected = self.mask(inputs["input_ids"])
        states = self.model({**inputs, "input_ids": ids})["token_embeddings"][selected]
        logits = self.language_head(states)
        summed = functional.cross_entropy(logits.float(), inputs["input_ids"][selected], reduction="sum")
        count = gather(selected.sum()[None]).sum().clamp(min=1)
        # processes average their gradients: scale to get that of the whole batch
        return {"mlm": self.method.mlm_weight * summed * world_size() / count}


class LanguageHead(nn.Module):
    """The backbone's language modeling head, untied from its embeddings."""

    model: Any

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.model, has_head = load_masked_language_model(backbone.name, backbone.revision)
        if not has_head:
            warnings.warn(
                f"backbone {backbone.name!r} has no language modeling head: training one from scratch",
                TrainingWarning,
                stacklevel=2,
            )
        setattr(self.model, self.model.base_model_prefix, _GivenStates())

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits over the vocabulary for states ``[number, dimension]``."""
        body = getattr(self.model, self.model.base_model_prefix)
        body.states = states[None]
        placeholder = torch.zeros(1, len(states), dtype=torch.long, device=states.device)
        return self.model(input_ids=placeholder).logits[0]  # type: ignore[no-any-return]


class _GivenStates(nn.Module):
    """Stands in for a language model's body, and returns the given states."""

    states: torch.Tensor

    def forward(self, *_: Any, **__: Any) -> Any:
        return BaseModelOutput(last_hidden_state=cast(torch.FloatTensor, self.states))


@register
class SimCSEWithMLM(SimCSE):
    """SimCSE plus a masked language modeling loss.

    :param mlm_weight: Weight of that loss.
    :param mlm_probability: Share of tokens to predict.
    """

    name = "simcse-mlm"
    about = "SimCSE plus a masked language modeling loss, for transfer tasks."
    loss_class = MlmContrastiveLoss
    kinds: ClassVar[tuple[str, ...]] = ("masked",)
    graphs: ClassVar[bool] = False  # the number of masked tokens varies

    mlm_weight: NonNegativeFloat = 0.1
    mlm_probability: Annotated[float, Field(gt=0, le=1)] = 0.15

    def check(self, backbone: Backbone) -> None:
        """Check that there is a mask token."""
        check_mask_token(backbone.tokenizer)
