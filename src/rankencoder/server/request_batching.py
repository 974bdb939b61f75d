"""Sentences of concurrent requests, encoded together by one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from rankencoder.server.metrics import Metrics

T = TypeVar("T")


class Encoded(NamedTuple):
    """Vectors of sentences, and how many tokens of each the encoder read."""

    vectors: np.ndarray
    tokens: list[int]


class Busy(Exception):
    """More waits to be encoded than the server promises to get done."""


@dataclass
class _Piece:
    sentences: list[str]
    result: asyncio.Future[Encoded]


class Batcher:
    """Collects sentences for a moment, and encodes them in one call, in a thread of its own.

    While a batch is encoded the next one gathers, so the wait matters only to the first request after a
    pause. A long request goes in pieces, each behind what others asked for meanwhile.

    :param size: Sentences per batch.
    :param wait: Seconds to wait for more.
    :param limit: Sentences that may wait.
    """

    def __init__(
        self, encode: Callable[[list[str]], Encoded], metrics: Metrics, *, size: int, wait: float, limit: int
    ) -> None:
        self._encode, self._metrics, self._size, self._wait, self._limit = encode, metrics, size, wait, limit
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")
        self._pieces: asyncio.Queue[_Piece] = asyncio.Queue()
        self._held: _Piece | None = None  # it did not fit into the last batch
        self._waiting = 0

    async def encode(self, sentences: list[str]) -> Encoded:
        """Encode sentences together with those of other requests."""
        self._enter(len(sentences))
        try:
            parts = []
            for start in range(0, len(sentences), self._size):
                piece = _Piece(sentences[start : start + self._size], asyncio.Future())
                self._pieces.put_nowait(piece)
                parts.append(await piece.result)
        finally:
            self._leave(len(sentences))
        vectors = np.concatenate([part.vectors for part in parts])
        return Encoded(vectors, [count for part in parts for count in part.tokens])

    async def call(self, function: Callable[[], T]) -> T:
        """Run something else in the encoder's thread, between batches."""
        self._enter(1)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)
        finally:
            self._leave(1)

    def _enter(self, sentences: int) -> None:
        if self._waiting + sentences > self._limit:
            raise Busy(f"{self._waiting:,} sentences wait to be encoded, {self._limit:,} are allowed to")
        self._leave(-sentences)

    def _leave(self, sentences: int) -> None:
        self._waiting -= sentences
        self._metrics.waiting.set(self._waiting)

    async def run(self) -> None:
        """Encode batches until cancelled."""
        while True:
            await self._answer(await self._gather())

    async def close(self) -> None:
        """Let the thread finish what it does."""
        await asyncio.to_thread(self._thread.shutdown)

    async def _gather(self) -> list[_Piece]:
        """Wait for a piece, and a moment for more where few are there."""
        batch = [self._held or await self._pieces.get()]
        self._held = None
        if self._wait and self._pieces.qsize() < self._size:
            await asyncio.sleep(self._wait)
        number = len(batch[0].sentences)
        while number < self._size and not self._pieces.empty():
            piece = self._pieces.get_nowait()
            number += len(piece.sentences)
            if number > self._size:
                self._held = piece
            else:
                batch.append(piece)
        return [piece for piece in batch if not piece.result.done()]  # the others' clients have gone

    async def _answer(self, batch: list[_Piece]) -> None:
        if not batch:
            return
        loop = asyncio.get_running_loop()
        sentences = [text for piece in batch for text in piece.sentences]
        try:
            encoded = await loop.run_in_executor(self._thread, self._encode, sentences)
        except Exception as error:
            if len(batch) > 1:  # one sentence is at fault, and only who sent it shall hear of it
                for piece in batch:
                    await self._answer([piece])
            elif not batch[0].result.done():
                batch[0].result.set_exception(error)
            return
        self._metrics.sentences.inc(len(sentences))
        self._metrics.batch.observe(len(sentences))
        start = 0
        for piece in batch:
            end = start + len(piece.sentences)
            if not piece.result.done():
                piece.result.set_result(Encoded(encoded.vectors[start:end], encoded.tokens[start:end]))
            start = end
