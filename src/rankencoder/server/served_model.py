"""A served model: batches the sentences of concurrent requests, in its own thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.io.files import fingerprint
from rankencoder.labels.fitted_curve import curve_folder, find_curve
from rankencoder.labels.threshold_curve import STORED
from rankencoder.model import RankEncoder
from rankencoder.server.http_errors import ApiError
from rankencoder.server.request_log import LOG_FIELDS, Metrics

T = TypeVar("T")
WAIT = 0.003  # seconds that the first request after a pause waits for others
_Queued: TypeAlias = tuple[str, "asyncio.Future[tuple[np.ndarray, int]]"]


class Encoded(NamedTuple):
    """Sentence vectors, and the number of tokens of each."""

    vectors: np.ndarray
    tokens: list[int]


class ServedModel:
    """A model with its queue, its index and its metrics.

    The next batch gathers while one is encoded. A long request is split into pieces, which take turns with
    other requests.

    :param encoder: A RankEncoder, or a plain encoder, which has no explanations.
    :param name: Its name in requests.
    :param index: A `RankIndex` made with it.
    :param batch_size: Maximum sentences per batch.
    """

    def __init__(
        self, encoder: RankEncoder | Encoder, name: str, index: Any, metrics: Metrics, batch_size: int
    ) -> None:
        self.encoder, self.name, self.index, self._size = encoder, name, index, batch_size
        self.sentences, self._batch = metrics.sentences.labels(name), metrics.batch.labels(name)
        self.tokens, self._waiting = metrics.tokens.labels(name), metrics.waiting.labels(name)
        self._queue: asyncio.Queue[_Queued] = asyncio.Queue()
        folders = curve_folder(encoder.name), None if index is None else index.folder.path
        self._curve_files = [folder / STORED for folder in folders if folder is not None]
        self.dimension = self._encode(["Warm up."]).vectors.shape[1]
        if index is not None:
            _ = index.model, index.calibration  # opened now rather than in the first request
            self._stamp = fingerprint(index.folder.config)
        self._read_curve(self._stat_curves())

    async def encode(self, sentences: list[str]) -> Encoded:
        """Encode sentences, batched with those of other requests."""
        self._log_sentences(sentences)
        rows: list[tuple[np.ndarray, int]] = []
        self._waiting.inc(len(sentences))
        try:
            for start in range(0, len(sentences), self._size):
                piece: list[_Queued] = [
                    (text, asyncio.Future()) for text in sentences[start : start + self._size]
                ]
                for waiting in piece:
                    self._queue.put_nowait(waiting)
                rows += await asyncio.gather(*(result for _, result in piece))
        finally:
            self._waiting.dec(len(sentences))
        vectors, tokens = zip(*rows, strict=True)
        return Encoded(np.stack(vectors), list(tokens))

    async def run_between_batches(self, sentences: list[str], function: Callable[[], T]) -> T:
        """Run a function that encodes these sentences itself, between batches."""
        self._log_sentences(sentences)
        done, tokens = await self._in_thread(
            lambda: (function(), self._count_tokens(sentences) if sentences else [])
        )
        self.tokens.inc(sum(tokens))
        self.sentences.inc(len(sentences))
        return done

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Encode batches in a thread, which finishes its batch on exit."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")
        worker = asyncio.create_task(self._run())
        yield
        worker.cancel()
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self) -> None:
        while True:
            await self._answer(await self._gather())

    async def _gather(self) -> list[_Queued]:
        """Wait for a sentence, then briefly for more."""
        batch = [await self._queue.get()]
        if self._queue.qsize() + 1 < self._size:
            await asyncio.sleep(WAIT)
        while len(batch) < self._size and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch

    async def _answer(self, batch: list[_Queued]) -> None:
        sentences = [text for text, _ in batch]
        try:
            encoded = await self._in_thread(lambda: self._encode(sentences))
        except Exception as error:
            if len(batch) > 1:  # one sentence is at fault: fail only its own request
                for waiting in batch:
                    await self._answer([waiting])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        self.sentences.inc(len(sentences))
        self.tokens.inc(sum(encoded.tokens))
        self._batch.observe(len(sentences))
        for (_, result), row in zip(batch, zip(*encoded, strict=True), strict=True):
            if not result.done():  # unless its client has disconnected
                result.set_result(row)

    def current_index(self) -> Any:
        """Return the index, reopened if it was rebuilt."""
        try:
            stamp = fingerprint(self.index.folder.config)
            if stamp != self._stamp:
                index = type(self.index).load(self.index.folder.path, self.encoder)
                _ = index.model
                self.index, self._stamp = index, stamp
        except InputError as error:
            raise ApiError(409, f"the index cannot be searched now: {error}", code="no_index") from error
        return self.index

    async def _in_thread(self, function: Callable[[], T]) -> T:
        def run() -> T:
            if (stamps := self._stat_curves()) != self._curve_stamps:
                self._read_curve(stamps)
            return function()

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def _stat_curves(self) -> list[list[Any]]:
        return [fingerprint(path) for path in self._curve_files if path.is_file()]

    def _read_curve(self, stamps: list[list[Any]]) -> None:
        """Read the stored curve, also if `threshold` has stored another since."""
        self._curve_stamps = stamps
        if self.index is not None:
            vars(self.index).pop("curve", None)
        self.curve = find_curve(self.encoder) or (None if self.index is None else self.index.curve)

    def _log_sentences(self, sentences: list[str]) -> None:
        about = LOG_FIELDS.get()
        about["model"], about["sentences"] = self.name, about.get("sentences", 0) + len(sentences)

    def _encode(self, sentences: list[str]) -> Encoded:
        return Encoded(self.encoder.encode(sentences), self._count_tokens(sentences))

    def _count_tokens(self, sentences: list[str]) -> list[int]:
        encoder = self.encoder.encoder if isinstance(self.encoder, RankEncoder) else self.encoder
        counts, longest = encoder.count_tokens(sentences)
        return [int(min(count, longest)) for count in counts]
