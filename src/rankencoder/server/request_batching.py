"""Sentences of concurrent requests, encoded together by one thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from rankencoder.server.http_errors import Refusal
from rankencoder.server.metrics import Metrics

T = TypeVar("T")


class Encoded(NamedTuple):
    """Vectors of sentences, and how many tokens of each the encoder read."""

    vectors: np.ndarray
    tokens: list[int]


_Waiting: TypeAlias = tuple[str, "asyncio.Future[tuple[np.ndarray, int]]"]


class Batcher:
    """Collects sentences for a moment, and encodes them in one call, in a thread of its own.

    While a batch is encoded the next one gathers, so the wait matters only to the first request after a
    pause. A long request goes in pieces, each behind what others asked for meanwhile.

    :param name: Of the model, for its metrics.
    :param size: Sentences per batch.
    :param wait: Seconds to wait for more.
    :param limit: Sentences that may wait; requests beyond are refused.
    """

    def __init__(
        self,
        encode: Callable[[list[str]], Encoded],
        metrics: Metrics,
        *,
        name: str = "",
        size: int,
        wait: float,
        limit: int,
    ) -> None:
        self._encode, self._size, self._wait, self._limit = encode, size, wait, limit
        self.sentences, self._batch = metrics.sentences.labels(name), metrics.batch.labels(name)
        self.tokens, self._gauge = metrics.tokens.labels(name), metrics.waiting.labels(name)
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._waiting = 0

    async def encode(self, sentences: list[str]) -> Encoded:
        """Encode sentences together with those of other requests."""
        rows: list[tuple[np.ndarray, int]] = []
        with self._counted(len(sentences)):
            for start in range(0, len(sentences), self._size):
                piece: list[_Waiting] = [
                    (text, asyncio.Future()) for text in sentences[start : start + self._size]
                ]
                for waiting in piece:
                    self._queue.put_nowait(waiting)
                rows += await asyncio.gather(*(result for _, result in piece))
        vectors, tokens = zip(*rows, strict=True)
        return Encoded(np.stack(vectors), list(tokens))

    async def call(self, function: Callable[[], T]) -> T:
        """Run something else in the encoder's thread, between batches."""
        with self._counted(1):
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    @contextmanager
    def _counted(self, sentences: int) -> Iterator[None]:
        if self._waiting + sentences > self._limit:
            message = f"{self._waiting:,} sentences wait to be encoded, {self._limit:,} are allowed to"
            headers = {"Retry-After": "1"}
            raise Refusal(429, f"too busy: {message}; try later", code="too_busy", headers=headers)
        self._waiting += sentences
        self._gauge.set(self._waiting)
        try:
            yield
        finally:
            self._waiting -= sentences
            self._gauge.set(self._waiting)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Encode batches in a thread, which finishes what it does at the end."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")
        worker = asyncio.create_task(self._run())
        yield
        worker.cancel()
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self) -> None:
        while True:
            await self._answer(await self._gather())

    async def _gather(self) -> list[_Waiting]:
        """Wait for a sentence, and a moment for more where few are there."""
        batch = [await self._queue.get()]
        if self._wait and self._queue.qsize() < self._size:
            await asyncio.sleep(self._wait)
        while len(batch) < self._size and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return [waiting for waiting in batch if not waiting[1].done()]  # the others' clients have gone

    async def _answer(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        sentences = [text for text, _ in batch]
        loop = asyncio.get_running_loop()
        try:
            encoded = await loop.run_in_executor(self._thread, self._encode, sentences)
        except Exception as error:
            if len(batch) > 1:  # one sentence is at fault, and only who sent it shall hear of it
                for waiting in batch:
                    await self._answer([waiting])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        self.sentences.inc(len(sentences))
        self.tokens.inc(sum(encoded.tokens))
        self._batch.observe(len(sentences))
        for (_, result), row in zip(batch, zip(*encoded, strict=True), strict=True):
            if not result.done():
                result.set_result(row)
