"""A model of a server: its queue, its index, its metrics."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.files import fingerprint
from rankencoder.labels.fitted_curve import find_curve
from rankencoder.model import RankEncoder
from rankencoder.server.http_errors import Refusal
from rankencoder.server.metrics import Metrics
from rankencoder.server.request_batching import Batcher, Encoded
from rankencoder.server.server_settings import ServerSettings

T = TypeVar("T")
ABOUT_REQUEST: ContextVar[dict[str, Any]] = ContextVar("ABOUT_REQUEST")
"""What the log is to say of the request that is being answered."""


class ServedModel(Batcher):
    """A model whose sentences are encoded together, by a thread of its own.

    :param encoder: A RankEncoder, or a plain encoder, which explains nothing.
    :param name: What requests call it.
    :param index: A `RankIndex` that was made with it.
    """

    def __init__(
        self,
        encoder: RankEncoder | Encoder,
        name: str,
        index: Any,
        metrics: Metrics,
        settings: ServerSettings,
    ) -> None:
        size, wait = settings.batch_sentences, settings.batch_wait_ms / 1000
        super().__init__(
            self._encode_batch, metrics, name=name, size=size, wait=wait, limit=settings.max_waiting
        )
        self.encoder, self.name, self.index = encoder, name, index
        self.curve = find_curve(encoder)
        self.dimension = self._encode_batch(["Warm up."]).vectors.shape[1]
        if index is not None:
            _ = index.model, index.calibration  # opened now, and not in the first request
            self._stamp = fingerprint(index.folder.config)

    async def encode(self, sentences: list[str]) -> Encoded:
        """Encode sentences together with those of other requests."""
        self._note(sentences)
        return await super().encode(sentences)

    async def work(self, sentences: list[str], function: Callable[[], T]) -> T:
        """Do something else in the encoder's thread, with sentences that it encodes by itself."""
        self._note(sentences)
        done, tokens = await self.call(
            lambda: (function(), self._count_tokens(sentences) if sentences else [])
        )
        self.tokens.inc(sum(tokens))
        self.sentences.inc(len(sentences))
        return done

    def current_index(self) -> Any:
        """Return the index; opened anew if it was made again since."""
        try:
            stamp = fingerprint(self.index.folder.config)
            if stamp != self._stamp:
                index = type(self.index).load(self.index.folder.path, self.encoder)
                _ = index.model
                self.index, self._stamp = index, stamp
        except InputError as error:
            raise Refusal(409, f"the index cannot be searched now: {error}", code="no_index") from error
        return self.index

    def _note(self, sentences: list[str]) -> None:
        about = ABOUT_REQUEST.get()
        about["model"], about["sentences"] = self.name, about.get("sentences", 0) + len(sentences)

    def _encode_batch(self, sentences: list[str]) -> Encoded:
        return Encoded(self.encoder.encode(sentences), self._count_tokens(sentences))

    def _count_tokens(self, sentences: list[str]) -> list[int]:
        encoder = self.encoder.encoder if isinstance(self.encoder, RankEncoder) else self.encoder
        counts, longest = encoder.count_tokens(sentences)
        return [int(min(count, longest)) for count in counts]
