"""PromptBERT: the state of [MASK] in two templates, minus the bias of the template."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from sentence_transformers import SentenceTransformer

from rankencoder.encoders import Encoder
from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.backbones.templates import (
    Template,
    prompted_encoder,
    templated_ids,
    templated_tokenizer,
    training_tokenizer,
)
from rankencoder.training.losses.contrastive import ContrastiveLoss, Features
from rankencoder.training.methods.method import Method, Rows, Traits, Views, cite, register

_BERT = (Template('This sentence of "', '" means{mask}.'), Template('This sentence : "', '" means{mask}.'))
_ROBERTA = (
    Template("This sentence : ' ", " ' means{mask}."),
    Template("The sentence : ' ", " ' means{mask}."),
)
_AUTHORS_TEACHER = Template("This sentence : ' ", " ' means{mask}.")  # for any backbone

_DEV_TOKENS = 128  # maximum length of a dev sentence with its own bias


class PromptBERTLoss(ContrastiveLoss):
    """The contrastive loss of template-denoised vectors h_T(X) − b_T(n), with n the number of X's tokens.

    The bias b_T(n) is the state of [MASK] in the template around n masked-out tokens, computed with the
    current weights and dropout; gradients flow through it.
    """

    method: PromptBERT

    def __init__(self, model: SentenceTransformer, method: PromptBERT, backbone: Backbone) -> None:
        super().__init__(model, method)
        templates = [training_tokenizer(backbone.tokenizer, t) for t in method.templates(backbone)]
        self.first = templates[0]
        self.empty: list[list[int]] = [template("")["input_ids"] for template in templates]
        self.before = [template("a").sequence_ids().index(0) for template in templates]
        self.pad_id = int(backbone.tokenizer.pad_token_id)
        self.rows: dict[tuple[int, torch.device], dict[str, torch.Tensor]] = {}

    def adjust(self, vectors: torch.Tensor, inputs: Features) -> torch.Tensor:
        """Subtract from each view its template's bias at the sentence's length."""
        mask = inputs["attention_mask"]
        tokens = mask.sum(dim=1).reshape(vectors.shape[1], -1)  # [views, N]
        tables = self.biases(mask.shape[1], mask.device)
        views = zip(tables, tokens, self.empty, strict=True)
        return vectors - torch.stack([table[count - len(empty)] for table, count, empty in views], dim=1)

    @contextmanager
    def scoring(self) -> Iterator[None]:
        """Let the encoder return template-denoised vectors while dev pairs are scored."""
        if not self.method.dev_bias:
            yield
            return
        model: Any = getattr(self.model, "module", self.model)  # several processes wrap it
        model.eval()
        with torch.no_grad():
            width = min(model.max_seq_length, _DEV_TOKENS + len(self.empty[0]))
            table = self.biases(width, model.device)[0]

        def subtract(module: Any, inputs: Any, output: Features) -> Features:
            tokens = (output["attention_mask"].sum(dim=1) - len(self.empty[0])).clamp(max=len(table) - 1)
            return {**output, "sentence_embedding": output["sentence_embedding"] - table[tokens]}

        hook = model[-1].register_forward_hook(subtract)
        own, model[0].processor = model[0].processor, self.first
        try:
            yield
        finally:
            hook.remove()
            model[0].processor = own

    def biases(self, width: int, device: torch.device) -> tuple[torch.Tensor, ...]:
        """Return b_T(0), b_T(1), … of both templates, up to the width of a batch."""
        sizes = [width - len(empty) + 1 for empty in self.empty]
        if (width, device) not in self.rows:
            rows = [self._row(view, n, width) for view, size in enumerate(sizes) for n in range(size)]
            ids, masks = (torch.tensor(part, device=device) for part in zip(*rows, strict=True))
            self.rows[width, device] = {"input_ids": ids, "attention_mask": masks}
        vectors: torch.Tensor = self.model(dict(self.rows[width, device]))["sentence_embedding"]
        return tuple(vectors.split(sizes))

    def _row(self, view: int, n: int, width: int) -> tuple[list[int], list[int]]:
        """Return ids and mask of a template around n masked-out tokens."""
        ids, before = self.empty[view], self.before[view]
        after = len(ids) - before
        padding = width - len(ids) - n
        unseen = ids[-1]  # any token but padding, which has no position in RoBERTa
        row = [*ids[:before], *[unseen] * n, *ids[before:], *[self.pad_id] * padding]
        mask = [1] * before + [0] * n + [1] * after + [0] * padding
        return row, mask


@register
class PromptBERT(Method):
    """Two templates give the two views. The encoder uses the first template.

    :param dev_bias: Score E1 on dev pairs as the authors' code does, by vectors minus the bias, without an
        added full stop; otherwise by the saved encoder.
    :param teacher_template: E1's template for E2's training sentences: the "same" as for the reference
        corpus, or "authors" for that of RankEncoder's code.
    """

    name = "promptbert"
    about = "The sentence in two templates, the state of [MASK] less the template's own bias."
    citation = cite("jiang-etal-2022-promptbert")
    loss_class = PromptBERTLoss
    dev_bias: bool = False
    teacher_template: Literal["same", "authors"] = "same"

    @classmethod
    def defaults(cls, backbone: Traits) -> dict[str, Any]:
        """Return the authors' settings."""
        return {"batch_size": 256, "learning_rate": 1e-5}

    @staticmethod
    def templates(backbone: Backbone) -> tuple[Template, Template]:
        """Return the templates of view 1 (and the encoder) and view 2."""
        return _ROBERTA if backbone.is_roberta else _BERT

    def encoder(self, backbone: Backbone) -> SentenceTransformer:
        """Return backbone and [MASK] pooling, with the template in the tokenizer."""
        return prompted_encoder(backbone, self.templates(backbone)[0], full_stop="promptbert")

    def teaching_encoder(self, encoder: Encoder) -> Encoder:
        """Put the authors' template into E1's tokenizer if `teacher_template` says so."""
        if self.teacher_template == "authors":
            module: Any = encoder.model[0]  # type: ignore[index]
            module.processor = templated_tokenizer(module.processor, _AUTHORS_TEACHER, "promptbert")
        return encoder

    def views(self, rows: Rows, backbone: Backbone, max_length: int) -> Views:
        """Return the sentence, truncated to ``max_length`` tokens, in both templates."""
        return [
            templated_ids(backbone.tokenizer, rows["text"], template, max_length=max_length)
            for template in self.templates(backbone)
        ]
