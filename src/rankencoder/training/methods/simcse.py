"""SimCSE: two dropout masks give the two views of a sentence."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.backbones.templates import Template, prompted_encoder, templated_ids
from rankencoder.training.methods.method import Method, Rows, Traits, Views, cite, register

CAUSAL_PROMPT = Template('This sentence : "', '" means in one word:"')


@register
class SimCSE(Method):
    """Pools [CLS], or the last token of a prompt in causal language models.

    :param pooling: "auto" for these, or for a SentenceTransformer's own pooling; "mean" for mean pooling.
    """

    name = "simcse"
    about = "Twice the same sentence under two dropout masks; the state of [CLS]."
    citation = cite("gao-etal-2021-simcse")
    kinds: ClassVar[tuple[str, ...]] = ("masked", "causal")

    pooling: Literal["auto", "mean"] = "auto"

    @classmethod
    def defaults(cls, backbone: Traits) -> dict[str, Any]:
        """Return the authors' settings; those for causal models are ours."""
        if backbone.is_roberta:
            return {"batch_size": 512, "learning_rate": 3e-5 if backbone.is_large else 1e-5}
        gentle = backbone.is_large or backbone.kind == "causal"
        return {"batch_size": 64, "learning_rate": 1e-5 if gentle else 3e-5}

    def encoder(self, backbone: Backbone) -> SentenceTransformer:
        """Return backbone and pooling, without the training head."""
        if self._keeps_pooling(backbone):
            return backbone.with_own_pooling()
        own = "lasttoken" if backbone.kind == "causal" else "cls"
        mode = own if self.pooling == "auto" else self.pooling
        if backbone.kind == "causal":
            return prompted_encoder(backbone, CAUSAL_PROMPT, pooling=mode)
        return SentenceTransformer(modules=[backbone.module, Pooling(backbone.dimension, mode)])

    def views(self, rows: Rows, backbone: Backbone, max_length: int) -> Views:
        """Return the sentence twice, truncated to ``max_length`` tokens plus those of a prompt."""
        if backbone.kind == "masked" or self._keeps_pooling(backbone):
            return super().views(rows, backbone, max_length)
        ids = templated_ids(backbone.tokenizer, rows["text"], CAUSAL_PROMPT, max_length=max_length)
        return [ids, ids]

    def _keeps_pooling(self, backbone: Backbone) -> bool:
        return self.pooling == "auto" and bool(backbone.pooling)
