"""ESimCSE: repeats tokens in the second view, and adds a queue of negatives."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import NonNegativeInt
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.gather import gather
from rankencoder.training.losses.contrastive import INPUTS, ContrastiveLoss, Features, Frozen, mean_cosines
from rankencoder.training.losses.formulas import cosine_matrix, info_nce
from rankencoder.training.methods.method import Rows, Share, Traits, Views, cite, register
from rankencoder.training.methods.simcse import SimCSE

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


@register
@dataclass(frozen=True)
class ESimCSE(SimCSE):
    """SimCSE whose views differ in length, with a queue of negatives by a slowly moving encoder.

    With RoBERTa-large, the authors had a dropout of 0.15; here it is the backbone's own.

    :param repetition_rate: Share of a sentence's tokens that bounds how many are repeated.
    :param momentum: What the slow encoder keeps of itself at each step.
    :param queue_size: Vectors of earlier sentences that are negatives.
    :param momentum_init: What the slow encoder begins as: "pretrained" like the other, or "random" as in the
        authors' code.
    """

    name = "esimcse"
    about = "SimCSE with tokens repeated in the second view, and a queue of earlier sentences."
    citation = cite("wu-etal-2022-esimcse")
    kinds: ClassVar[tuple[str, ...]] = ("masked",)
    graphs: ClassVar[bool] = False  # a capture runs steps that would move the slow encoder

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
        """Return the sentence, cut to ``max_length`` tokens, and the same with some of them repeated.

        A sentence repeats the same tokens in each epoch, as the authors' did.
        """
        plain, _ = super().views(rows, backbone, max_length)
        rate, longest = self.repetition_rate, backbone.positions
        draws = zip(plain, map(random.Random, rows["row"]), strict=True)
        return [plain, [repeat_tokens(ids, rate, draw, longest) for ids, draw in draws]]

    def loss(self, model: SentenceTransformer, backbone: Backbone) -> ESimCSELoss:
        """Return SimCSE's loss with further negatives."""
        return ESimCSELoss(model, self, backbone)


def repeat_tokens(ids: list[int], rate: float, draw: random.Random, longest: int | None = None) -> list[int]:
    """Return token ids with some written twice, but never the first and the last.

    :param rate: Fewer than this share of all are repeated, and fewer than 10.
    :param longest: Ids that there may be in the end.

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
    """The contrastive loss with the vectors of earlier sentences among the first view's negatives.

    A slow encoder, without dropout, makes these vectors; the head is the one that is trained. The authors'
    queue is emptied at the beginning of an epoch, ours is not.
    """

    method: ESimCSE
    queue: torch.Tensor
    queued: torch.Tensor

    def __init__(self, model: SentenceTransformer, method: ESimCSE, backbone: Backbone) -> None:
        super().__init__(model, method)
        # a SentenceTransformer would be replaced by the trained one, when the trainer has several processes
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
        """Return the loss, and figures to log; in training, go on with slow encoder and queue."""
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
        """Move the slow encoder towards the other, and put its vectors of the plain view into the queue."""
        self.move(list(self.slow.parameters()), list(self.model.parameters()), None)
        inputs = {name: features[name][: len(features["rows"])] for name in INPUTS}
        new = self.head(gather(self.slow(inputs)["sentence_embedding"]))
        rows = torch.cat([self.queue, new.to(self.queue)])
        self.queue.copy_(rows[len(new) :])
        self.queued.add_(len(new)).clamp_(max=len(self.queue))
