"""Load pretrained language models as backbones, and mask their tokens."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Module, Transformer
from sentence_transformers.util import disable_logging, is_sentence_transformer_model
from torch import nn
from transformers import AutoConfig, AutoModelForMaskedLM, PretrainedConfig, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from rankencoder.encoder_sources import check_hub, check_readable
from rankencoder.errors import InputError, first_line

BERT_LIKE = ("bert", "camembert", "data2vec-text", "electra", "ernie", "roberta", "xlm-roberta")
"""Types of models with BERT's layers and learned positions."""

_TASKS = ("classif", "seq_classif", "qa_", "summary_")  # dropout of task heads


@dataclass
class Backbone:
    """A pretrained language model, loaded in single precision."""

    name: str  # its folder or hub name
    revision: str | None
    module: Transformer
    tokenizer: PreTrainedTokenizerBase  # the original, without a method's template
    kind: Literal["masked", "causal"]
    dropout: float | None  # in place of the model's own
    pooling: list[Module] = field(default_factory=list)  # further modules of a SentenceTransformer

    @property
    def config(self) -> PretrainedConfig:
        """The model's configuration."""
        return self.module.model.config

    @property
    def dimension(self) -> int:
        """Dimensions of its vectors."""
        return int(self.config.hidden_size)

    def with_own_pooling(self) -> SentenceTransformer:
        """Return the backbone with the pooling it was loaded with."""
        return SentenceTransformer(modules=[self.module, *self.pooling])

    @property
    def embeddings(self) -> Any:
        """The embedding module, if it goes by that name."""
        return getattr(self.module.model, "embeddings", None)

    @property
    def is_roberta(self) -> bool:
        """Whether the backbone is of the RoBERTa family, which has its own settings."""
        return "roberta" in self.config.model_type or self.config.model_type == "camembert"

    @property
    def positions(self) -> int | None:
        """Maximum tokens, if limited; RoBERTa reserves the first positions."""
        number = getattr(self.config, "max_position_embeddings", None)
        if number is None:
            return None
        return int(number) - (int(self.config.pad_token_id or 0) + 1 if self.is_roberta else 0)

    @property
    def is_large(self) -> bool:
        """Whether the backbone is of the "large" size, which has its own settings."""
        return self.dimension >= 1024


def load_backbone(
    name: str,
    *,
    revision: str | None = None,
    max_seq_length: int = 128,
    dropout: float | None = None,
) -> Backbone:
    """Load a backbone from a folder or the hub: safetensors only, no code from the repository.

    A model without dropout (ModernBERT, Llama) gets a dropout of 0.1; otherwise the two views of a sentence
    would be the same. A SentenceTransformer keeps its pooling and other modules.

    :param max_seq_length: Maximum tokens of the trained encoder; training may use fewer.
    :param dropout: Dropout everywhere, in place of the model's own.
    :raises InputError: If there is no such model, or it is not a language model.
    """
    config = _load_config(name, revision)
    kind = _kind(config, name)
    if dropout is None and not any(_dropouts(config).values()):
        dropout = 0.1
    given: dict[str, Any] = {} if dropout is None else dict.fromkeys(_dropouts(config), dropout)
    if kind == "causal":
        given["use_cache"] = False  # early releases of sentence-transformers 6 would keep the keys
    weights: dict[str, Any] = {"use_safetensors": True, "dtype": torch.float32}
    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    try:
        with disable_logging(logging.WARNING):  # about unused heads, and the pooling that is dropped
            loaded: Any = SentenceTransformer(
                name, revision=revision, device="cpu", model_kwargs=weights, config_kwargs=given
            )
            module, *pooling = loaded
            if not is_sentence_transformer_model(name, revision=revision, cache_folder=cache):
                pooling = []
    except Exception as error:  # libraries raise anything for a damaged or foreign folder
        raise InputError(f"cannot load backbone {name!r}: {first_line(error)}") from error
    if not isinstance(module, Transformer):
        raise InputError(f"backbone {name!r} is a {type(module).__name__}, not a language model")
    if module.tokenizer is None or not module.tokenizer.is_fast:
        raise InputError(f"backbone {name!r} has no fast tokenizer (a tokenizer.json): convert it first")
    if (pooler := getattr(module.model, "pooler", None)) is not None:
        pooler.requires_grad_(False)  # unused in training, but saved with the model
    backbone = Backbone(name, revision, module, module.tokenizer, kind, dropout, pooling)
    module.max_seq_length = min(max_seq_length, backbone.positions or max_seq_length)
    return backbone


def load_masked_language_model(name: str, revision: str | None) -> tuple[Any, bool]:
    """Return a masked language model in single precision, and whether its checkpoint has the head."""
    with disable_logging(logging.WARNING):
        model, info = AutoModelForMaskedLM.from_pretrained(
            name,
            revision=revision,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.float32,
            output_loading_info=True,
        )
    return model, not info["missing_keys"]


def _load_config(name: str, revision: str | None) -> PretrainedConfig:
    folder = Path(name)
    if not folder.exists():
        check_hub(name, revision, what="backbone")
    elif not (folder / "config.json").exists():
        raise InputError(f"{name} is not a language model: it has no config.json")
    check_readable(folder)
    try:
        # by default transformers would ask on the terminal whether to run the repository's code
        config: PretrainedConfig = AutoConfig.from_pretrained(
            name, revision=revision, trust_remote_code=False
        )
    except Exception as error:
        raise InputError(f"cannot load backbone {name!r}: {first_line(error)}") from error
    return config


def _kind(config: PretrainedConfig, name: str) -> Literal["masked", "causal"]:
    if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return "masked"
    if config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return "causal"
    raise InputError(
        f"backbone {name!r} is a {config.model_type!r}, neither a masked nor a causal language model"
    )


def _dropouts(config: PretrainedConfig) -> dict[str, float]:
    values: dict[str, Any] = config.to_dict()
    return {
        key: value
        for key, value in values.items()
        if ("dropout" in key or key.endswith("pdrop"))  # GPT-2's
        and not key.startswith(_TASKS)
        and isinstance(value, (int, float))
    }


class TokenMask(nn.Module):
    """Masks a share of the tokens as in BERT's pretraining, but no special tokens."""

    special_ids: torch.Tensor

    def __init__(self, backbone: Backbone, share: float) -> None:
        super().__init__()
        self.share = share
        self.mask_id = int(backbone.tokenizer.mask_token_id)
        self.vocabulary = int(backbone.config.vocab_size)
        self.register_buffer(
            "special_ids", torch.tensor(backbone.tokenizer.all_special_ids), persistent=False
        )

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids with selected tokens masked (80%), random (10%) or kept (10%), and the selection."""
        draw = torch.rand(ids.shape, device=ids.device)
        selected = (draw < self.share) & ~torch.isin(ids, self.special_ids)
        kind = torch.rand(ids.shape, device=ids.device)
        random = torch.randint(self.vocabulary, ids.shape, device=ids.device)
        masked = ids.masked_fill(selected & (kind < 0.8), self.mask_id)
        return torch.where(selected & (kind >= 0.9), random, masked), selected
