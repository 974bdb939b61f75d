"""Encode with an OpenAI-compatible API and cache every vector."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from rankencoder.errors import InputError, MissingExtraError, first_line, shorten
from rankencoder.fingerprints import digest
from rankencoder.io.storage import cache_root
from rankencoder.io.stored_vectors import StoredVectors, sentence_key

if TYPE_CHECKING:
    import openai

KEY_VARIABLE = "OPENAI_API_KEY"
RETRIES = 12  # they take a minute, because rate limits are per minute
_FIRST_RETRIES = 2  # before checking whether more retries can help
_TIMEOUT = 60.0  # seconds per answer
_CHARACTERS = 200_000  # per request; OpenAI reads 300,000 tokens
_REFUSALS = (400, 413, 422)  # HTTP statuses of requests that the API cannot take


@dataclass(frozen=True)
class ApiEstimate:
    """The estimated cost of encoding some sentences.

    :param sentences: Sentences to send.
    :param cached: Further sentences whose vectors are cached.
    :param tokens: Tokens of the sentences to send, at four bytes each as in English.
    :param cost: Cost in dollars, if a price is given.
    """

    name: str
    sentences: int
    cached: int
    tokens: int
    cost: float | None

    def __str__(self) -> str:
        paid = f" ({self.cached:,} already paid for)" if self.cached else ""
        tokens = f"about {float(f'{self.tokens:.2g}'):,.0f} tokens"
        cost = f", about ${max(self.cost, 0.01):,.2f}" if self.cost else ""
        return f"{self.name}: {self.sentences:,} sentences to send{paid}, {tokens}{cost}"


class ApiEncoder:
    """An embedding model of OpenAI, or of a server with a compatible API.

    The vectors of each request are cached by sentence as soon as it is answered. The API key is read from
    ``OPENAI_API_KEY``; servers other than OpenAI's may need none.

    :param model: The API's name of the model.
    :param base_url: The address of the API, such as ``http://localhost:8000/v1``; by default OpenAI's.
    :param requests: Maximum number of concurrent requests.
    :param batch: Maximum number of sentences per request.
    """

    def __init__(
        self, model: str, *, base_url: str | None = None, requests: int = 4, batch: int = 256
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError("an API needs openai", "api") from error
        self.model, self.name = model, f"openai:{model}"
        self.requests, self.batch = requests, batch
        url = base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise InputError(f"{url!r} is not an API address: pass one such as http://localhost:8000/v1")
        self.url = url.rstrip("/")
        self._client = openai.OpenAI(api_key=_read_key(self.url), base_url=self.url, timeout=_TIMEOUT)
        self._answered = False
        self._lock = Lock()

    @cached_property
    def _stored(self) -> StoredVectors:
        """The cache, read in full when it is opened."""
        readable = re.sub(r"[^\w.-]+", "-", self.model)[:60]
        return StoredVectors(cache_root("api", f"{readable}-{digest([self.url, self.model])[:16]}"))

    @cached_property
    def _dimension(self) -> int | None:
        found = self._stored.read(list(self._stored.keys())[:1])
        return next((len(row) for row in found.values()), None)

    def probe(self) -> None:
        """Check that the API has the model by encoding one word, unless it has answered before."""
        if not self._stored.keys():
            self.encode(["probe"])

    def encode(self, sentences: list[str]) -> np.ndarray:
        """Return the vectors of sentences, ``[len(sentences), dimension]``; those not cached are requested.

        :raises InputError: If the API fails or does not return vectors. Earlier answers stay in the cache.
        """
        keys = [sentence_key(sentence) for sentence in sentences]
        texts = dict(zip(keys, sentences, strict=True))
        found = self._stored.read(texts)
        missing = [text for key, text in texts.items() if key not in found]
        try:
            self._send(missing)
        except InputError as error:
            if not (kept := len(self._stored.keys())):
                raise
            raise InputError(f"{error}; {kept:,} vectors are cached and not charged again") from error
        found |= self._stored.read(map(sentence_key, missing))
        return np.array([found[key] for key in keys])

    def estimate(self, sentences: Iterable[str], *, price: float | None = None) -> ApiEstimate:
        """Estimate the cost of encoding sentences.

        :param price: Dollars per million tokens.
        """
        stored, seen = self._stored.keys(), set[bytes]()
        cached = size = 0
        for sentence in sentences:
            if (key := sentence_key(sentence)) not in seen:
                seen.add(key)
                cached += key in stored
                size += 0 if key in stored else len(sentence.encode())
        tokens = -(-size // 4)
        cost = None if price is None else tokens * price / 1e6
        return ApiEstimate(self.name, len(seen) - cached, cached, tokens, cost)

    def _send(self, sentences: list[str]) -> None:
        """Request vectors concurrently. After an error, pending answers are still cached."""
        with ThreadPoolExecutor(self.requests) as pool:
            waiting = [pool.submit(self._request, batch) for batch in self._batches(sentences)]
            try:
                for done in as_completed(waiting):
                    done.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _batches(self, sentences: list[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for sentence in sentences:
            if len(batch) == self.batch or (batch and size + len(sentence) > _CHARACTERS):
                yield batch
                batch, size = [], 0
            batch.append(sentence)
            size += len(sentence)
        if batch:
            yield batch

    def _request(self, batch: list[str]) -> None:
        """Request and cache the vectors of a batch; a refused batch is split in two."""
        import openai
        from pydantic_core import from_json

        try:
            answer = from_json(self._ask(batch))
        except openai.APIError as error:
            if getattr(error, "status_code", None) not in _REFUSALS:
                raise InputError(self._explain(error)) from error
            if len(batch) == 1:
                raise InputError(
                    f"{self.name} refuses {shorten(batch[0])!r} ({len(batch[0]):,} characters): "
                    f"{_message(error)}; shorten or drop it"
                ) from error
            middle = len(batch) // 2
            self._request(batch[:middle])
            self._request(batch[middle:])
        except ValueError as error:
            raise InputError(f"{self.name} at {self.url} did not answer in JSON: {error}") from error
        else:
            self._store(batch, self._rows(batch, answer))

    def _ask(self, batch: list[str]) -> bytes:
        """Return the raw answer: the client takes seconds to parse 256 vectors.

        Retries last a minute, unless the quota is used up or the API has never answered.
        """
        import openai

        for retries in (_FIRST_RETRIES, RETRIES):
            embeddings = self._client.with_options(max_retries=retries).embeddings.with_raw_response
            try:
                return embeddings.create(model=self.model, input=batch, encoding_format="float").content
            except (openai.RateLimitError, openai.InternalServerError, openai.APIConnectionError) as error:
                unreachable = isinstance(error, openai.APIConnectionError) and not self._answered
                if unreachable or error.code == "insufficient_quota" or retries == RETRIES:
                    raise
        raise AssertionError

    def _rows(self, batch: list[str], answer: Any) -> np.ndarray:
        """Return the vectors of an answer in the order of the batch."""
        data = answer.get("data") if isinstance(answer, dict) else None
        items = [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []
        rows = {str(item.get("index")): item.get("embedding") for item in items}
        names = list(map(str, range(len(batch))))
        if len(items) != len(batch) or rows.keys() != set(names):
            raise InputError(
                f"{self.name} at {self.url} answered {len(batch)} sentences with {len(items)} vectors, "
                f"{len(rows.keys() & set(names))} of them numbered: is this an embedding API?"
            )
        try:
            return np.array([rows[name] for name in names], dtype=np.float32).reshape(len(batch), -1)
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.name} at {self.url} did not return vectors of one dimension") from error

    def _store(self, batch: list[str], rows: np.ndarray) -> None:
        """Cache the valid vectors, and raise an error if any is invalid."""
        good = np.isfinite(rows).all(axis=1) & rows.any(axis=1)
        with self._lock:
            if rows.shape[1] != (self._dimension or rows.shape[1]):
                raise InputError(
                    f"{self.name} returned vectors of {rows.shape[1]} dimensions, but {self._dimension} "
                    f"before: if the model has changed, delete {self._stored.folder}"
                )
            if good.any():
                self._stored.add([sentence_key(batch[i]) for i in good.nonzero()[0]], rows[good])
                self._dimension, self._answered = rows.shape[1], True
        if not good.all():
            sentence = batch[int((~good).argmax())]
            raise InputError(
                f"{self.name} returned a zero, NaN or infinite vector for {shorten(sentence)!r}: drop it"
            )

    def _explain(self, error: openai.APIError) -> str:
        """Return an error message with advice."""
        status, told = getattr(error, "status_code", None), _message(error)
        if error.code == "insufficient_quota":
            return f"the quota of your account at {self.url} is used up: {told}"
        if status is None:
            return f"no answer from {self.url}: {told}; check the address and the network"
        advice = {
            401: f"set a valid key in the environment variable {KEY_VARIABLE}",
            403: f"does the key in {KEY_VARIABLE} allow this model?",
            404: "check the name of the model and the address",
            429: f"throttled for more than {RETRIES} retries, try later",
        }.get(status, "try later")
        return f"{self.name} at {self.url}: HTTP {status}: {told}; {advice}"


def _read_key(url: str) -> str:
    """Return the API key, or a placeholder for servers that may need none."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key and f".{urlsplit(url).hostname}".endswith(".openai.com"):
        raise InputError(f"no API key: set the environment variable {KEY_VARIABLE}")
    if key and not re.fullmatch("[!-~]+", key):
        raise InputError(f"{KEY_VARIABLE} does not hold an API key: it must be one word of ASCII characters")
    return key or "none"


def _message(error: openai.APIError) -> str:
    """Return the API's message, or why it could not be reached."""
    body = error.body
    if isinstance(body, dict) and body.get("message"):
        return shorten(str(body["message"]).splitlines()[0].rstrip("."), 300)
    return shorten(first_line(error.__cause__ or error).rstrip("."), 300)
