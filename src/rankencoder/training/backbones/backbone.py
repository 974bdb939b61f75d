"""Load pretrained language models as backbones."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rankencoder.encoder_sources import check_hub, check_readable
from rankencoder.errors import InputError, first_line

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Module, Transformer
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

_TASKS = ("classif", "seq_classif", "qa_", "summary_")  # dropout behind the encoder


@dataclass
class Backbone:
    """A pretrained language model, loaded in single precision."""

    name: str  # its folder or hub name
    revision: str | None
    module: Transformer
    tokenizer: PreTrainedTokenizerBase  # its own, before a method puts a template into the module's
    kind: Literal["masked", "causal"]
    dropout: float | None  # that it was given in place of its own
    pooling: list[Module] = field(default_factory=list)  # of a SentenceTransformer; a language model has none

    @property
    def config(self) -> PretrainedConfig:
        """Return the model's configuration."""
        return self.module.model.config

    @property
    def dimension(self) -> int:
        """Dimensions of its vectors."""
        return int(self.config.hidden_size)

    def with_own_pooling(self) -> SentenceTransformer:
        """Return the SentenceTransformer that it was loaded from."""
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(modules=[self.module, *self.pooling])

    @property
    def embeddings(self) -> Any:
        """The module whose output its first layer reads; None where it goes by another name."""
        return getattr(self.module.model, "embeddings", None)

    @property
    def is_roberta(self) -> bool:
        """Whether it is of the RoBERTa family, for which the authors chose other settings."""
        return "roberta" in self.config.model_type or self.config.model_type == "camembert"

    @property
    def positions(self) -> int | None:
        """Tokens that it can read at most, where that is limited; RoBERTa reserves its first ones."""
        number = getattr(self.config, "max_position_embeddings", None)
        if number is None:
            return None
        return int(number) - (int(self.config.pad_token_id or 0) + 1 if self.is_roberta else 0)

    @property
    def is_large(self) -> bool:
        """Whether it is of the "large" size, for which the authors chose other settings."""
        return self.dimension >= 1024


def load_backbone(
    name: str,
    *,
    revision: str | None = None,
    max_seq_length: int = 128,
    dropout: float | None = None,
) -> Backbone:
    """Load a backbone from a folder or the hub: safetensors only, no code from the repository.

    A model whose dropout is 0 everywhere (ModernBERT, Llama) gets a dropout of 0.1: without any, the two
    views of a sentence would be the same. A SentenceTransformer keeps the modules behind its language model.

    :param max_seq_length: Tokens that the trained encoder reads; it is trained on fewer.
    :param dropout: The dropout that it is to have everywhere, in place of its own.
    :raises InputError: If there is none, or it is no language model.
    """
    from sentence_transformers.sentence_transformer.modules import Transformer
    from sentence_transformers.util import disable_logging

    config = _load_config(name, revision)
    kind = _kind(config, name)
    if dropout is None and not any(_dropouts(config).values()):
        dropout = 0.1
    given: dict[str, Any] = {} if dropout is None else dict.fromkeys(_dropouts(config), dropout)
    if kind == "causal":
        given["use_cache"] = False  # nothing is generated; early sentence-transformers 6 would keep the keys
    try:
        with disable_logging(logging.WARNING):  # reports on heads that are not needed
            module, *pooling = _load_modules(name, revision, given)
    except Exception as error:  # whatever a damaged or foreign folder makes the libraries raise
        raise InputError(f"cannot load backbone {name!r}: {first_line(error)}") from error
    if not isinstance(module, Transformer):
        raise InputError(f"backbone {name!r} is no language model but a {type(module).__name__}")
    if module.tokenizer is None or not module.tokenizer.is_fast:
        raise InputError(f"backbone {name!r} has no fast tokenizer (a tokenizer.json): convert it first")
    if (pooler := getattr(module.model, "pooler", None)) is not None:
        pooler.requires_grad_(False)  # no method reads it; the saved model still has all its parts
    backbone = Backbone(name, revision, module, module.tokenizer, kind, dropout, pooling)
    module.max_seq_length = min(max_seq_length, backbone.positions or max_seq_length)
    return backbone


def _load_modules(name: str, revision: str | None, config: dict[str, Any]) -> list[Any]:
    """Return the language model, and of a SentenceTransformer its other modules."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer
    from sentence_transformers.util import is_sentence_transformer_model

    weights: dict[str, Any] = {"use_safetensors": True, "dtype": torch.float32}
    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    if is_sentence_transformer_model(name, revision=revision, cache_folder=cache):
        return list(
            SentenceTransformer(
                name, revision=revision, device="cpu", model_kwargs=weights, config_kwargs=config
            )
        )
    at = {"revision": revision}
    return [
        Transformer(name, model_kwargs={**at, **weights}, processor_kwargs=at, config_kwargs={**at, **config})
    ]


def load_masked_language_model(name: str, revision: str | None) -> tuple[Any, bool]:
    """Return a masked language model in single precision, and whether it came with a head of its own."""
    import torch
    from sentence_transformers.util import disable_logging
    from transformers import AutoModelForMaskedLM

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
    from transformers import AutoConfig

    folder = Path(name)
    if not folder.exists():
        check_hub(name, revision, what="backbone")
    elif not (folder / "config.json").exists():
        raise InputError(f"{name} is no backbone: it has no config.json")
    check_readable(folder)
    try:
        # without False, transformers would ask whoever sits there whether to run a stranger's code
        config: PretrainedConfig = AutoConfig.from_pretrained(
            name, revision=revision, trust_remote_code=False
        )
    except Exception as error:
        raise InputError(f"cannot load backbone {name!r}: {first_line(error)}") from error
    return config


def _kind(config: PretrainedConfig, name: str) -> Literal["masked", "causal"]:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return "masked"
    if config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return "causal"
    raise InputError(
        f"backbone {name!r} is a {config.model_type!r}: neither a masked nor a causal language model"
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
