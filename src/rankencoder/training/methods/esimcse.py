"""ESimCSE: repeats tokens in the second view, and adds a queue of negatives."""

from __future__ import annotations

import copy
import random
from typing import Any, ClassVar, Literal

import torch
from pydantic import NonNegativeInt
from sentence_transformers import SentenceTransformer
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.gather import gather
from rankencoder.training.losses.contrastive import INPUTS, ContrastiveLoss, Features, Frozen, mean_cosines
from rankencoder.training.losses.formulas import cosine_matrix, info_nce
from rankencoder.training.methods.method import Rows, Share, Traits, Views, cite, register
from rankencoder.training.methods.simcse import SimCSE


def repeat_tokens(ids: list[int], rate: float, draw: random.Random, longest: int | None = None) -> list[int]:
    """Return token ids with some repeated, never the first and the last.

    :param rate: Fewer than this share are repeated, and fewer than 10.
    :param longest: Maximum length of the result.

    >>> repeat_tokens([101, 7, 8, 9, 10, 11, 102], 0.5, random.Random(5))
    [101, 7, 8, 9, 9, 10, 11, 11, 102]
    """
    bound = min(10, int(rate * len(ids)))
    inner = range(1, len(ids) - 1)
    room = len(inner) if longest is None else min(len(inner), longest - len(ids))
    count = min(draw.randrange(bound), max(0, room)) if bound else 0
    repeated = set(draw.sample(inner, count))
    return [token for i, token in enumerate(ids) for _ in range(1 + (i in repeated))]


class ESimCSELoss(ContrastiveLoss):
    """The contrastive loss with a queue of earlier sentences' vectors as further negatives.

    The vectors come from the slow encoder, without dropout, and the trained head. The authors empty the queue
    at the start of each epoch; this one is kept.
    """

    method: ESimCSE
    queue: torch.Tensor
    queued: torch.Tensor

    def __init__(self, model: SentenceTransformer, method: ESimCSE, backbone: Backbone) -> None:
        super().__init__(model, method)
        # with several processes, the trainer would replace a SentenceTransformer with the trained one
        slow: list[Any] = copy.deepcopy(list(model))
        if method.momentum_init == "random":
            slow[0].model = type(slow[0].model)(slow[0].model.config)
        self.slow = Frozen(nn.Sequential(*slow))
        self.move = get_ema_multi_avg_fn(method.momentum)
        dimension = int(model.get_embedding_dimension() or 0)
        self.register_buffer("queue", torch.zeros(method.queue_size, dimension))
        self.register_buffer("queued", torch.zeros((), dtype=torch.long))

    def state(self) -> Features:
        """Return the slow encoder's weights and the queue."""
        weights = {f"slow.{name}": weight for name, weight in self.slow.named_parameters()}
        return {**weights, "queue": self.queue, "queued": self.queued}

    def contrast(self, outputs: torch.Tensor, features: Features) -> tuple[torch.Tensor, Features]:
        """Return the loss and values to log; in training, update slow encoder and queue."""
        cosines = cosine_matrix(outputs[0], outputs[1])
        earlier = cosine_matrix(outputs[0], self.queue)
        size = len(self.queue)
        empty = torch.arange(size, device=earlier.device) < size - self.queued
        columns = torch.cat([cosines, earlier.masked_fill(empty, -torch.inf)], dim=1)
        logged = mean_cosines(cosines)
        logged["queue_cosine"] = earlier.detach().sum() / (len(earlier) * self.queued).clamp(min=1)
        loss = info_nce(columns, self.method.temperature)
        if self.training:
            self.advance(features)
        return loss, logged

    @torch.no_grad()
    def advance(self, features: Features) -> None:
        """Update the slow encoder, and queue its vectors of the plain view."""
        self.move(list(self.slow.parameters()), list(self.model.parameters()), None)
        inputs = {name: features[name][: len(features["rows"])] for name in INPUTS}
        new = self.head(gather(self.slow(inputs)["sentence_embedding"]))
        rows = torch.cat([self.queue, new.to(self.queue)])
        self.queue.copy_(rows[len(new) :])
        self.queued.add_(len(new)).clamp_(max=len(self.queue))


@register
class ESimCSE(SimCSE):
    """SimCSE with views of different length, and a queue of negatives from a momentum encoder.

    With RoBERTa-large, the authors used a dropout of 0.15; here it is the backbone's own.

    :param repetition_rate: Maximum share of a sentence's tokens to repeat.
    :param momentum: Momentum of the slow encoder.
    :param queue_size: Number of queued vectors of earlier sentences.
    :param momentum_init: Initial weights of the slow encoder: "pretrained", or "random" as in the authors'
        code.
    """

    name = "esimcse"
    about = "SimCSE with tokens repeated in the second view, and a queue of earlier sentences."
    citation = cite("wu-etal-2022-esimcse")
    loss_class = ESimCSELoss
    kinds: ClassVar[tuple[str, ...]] = ("masked",)
    graphs: ClassVar[bool] = False  # warm-up steps of a capture would move the slow encoder

    repetition_rate: Share = 0.32
    momentum: Share = 0.995
    queue_size: NonNegativeInt = 160
    momentum_init: Literal["pretrained", "random"] = "pretrained"

    @classmethod
    def defaults(cls, backbone: Traits) -> dict[str, Any]:
        """Return the authors' settings."""
        if not backbone.is_roberta:
            return {"batch_size": 64, "learning_rate": 1e-5 if backbone.is_large else 3e-5}
        large = {"repetition_rate": 0.28, "queue_size": 128} if backbone.is_large else {}
        return {"batch_size": 64, "learning_rate": 1e-5, "repetition_rate": 0.3, **large}

    def views(self, rows: Rows, backbone: Backbone, max_length: int) -> Views:
        """Return the sentence, truncated to ``max_length`` tokens, and the same with some tokens repeated.

        As in the authors' code, a sentence repeats the same tokens in each epoch.
        """
        plain, _ = super().views(rows, backbone, max_length)
        rate, longest = self.repetition_rate, backbone.positions
        draws = zip(plain, map(random.Random, rows["row"]), strict=True)
        return [plain, [repeat_tokens(ids, rate, draw, longest) for ids, draw in draws]]
