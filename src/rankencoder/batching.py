"""Encode in batches of sentences with similar numbers of tokens, to avoid padding.

``SentenceTransformer.encode`` sorts sentences by characters, a poor proxy for tokens: a third of the
tokens that a model reads from Wikipedia is padding. Here thousands of sentences are tokenized at once,
sorted, and only then padded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from rankencoder.progress import Progress
from rankencoder.tokens import FILL, UnknownTokensError, find_tokenizer, join_ids

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    Batch = tuple[torch.Tensor, dict[str, Any]]
    Run = Callable[[dict[str, Any]], torch.Tensor]

S = TypeVar("S")
T = TypeVar("T")
_LOCK = Lock()  # for the next two variables
_encodings = 0  # running encodings with static models
_threads = 0  # torch's threads before the first of them

_TOKENIZED = 8192  # sentences to tokenize at a time
_AVERAGED = 1024  # sentences of a batch for a static model
_CACHED = 384  # tokens of a batch per CPU thread
_ALONE = 1024  # tokens of a batch that a single thread computes
_READ = 512  # tokens of a GPU batch per sentence of its size: launching kernels takes time, too


def encode_by_length(
    model: SentenceTransformer,
    sentences: list[str],
    batch_size: int,
    *,
    progress: bool = False,
    run: Run | None = None,
    workers: int = 1,
) -> torch.Tensor | None:
    """Encode like the model's own ``encode``, without adding a prompt.

    :param batch_size: Sentences per batch. GPU batches of short sentences hold more, up to ``batch_size``
        times 512 tokens; CPU batches of long sentences hold fewer, because caches are small.
    :param run: A function that computes the vectors of a batch, by default the model.
    :param workers: Number of threads that compute one batch each. Threads that share a batch wait for each
        other at every layer.
    :return: One vector per sentence, on the model's device; None for models that override ``encode``.
    """
    static = is_static(model)
    if not sentences or not (static or is_plain(model)):
        return None
    model.eval()
    batches: Generator[Any, None, None]
    if static:
        batches = (slice(start, start + _AVERAGED) for start in range(0, len(sentences), _AVERAGED))
        workers = _torch_threads() if len(sentences) > _AVERAGED else 1
    else:
        batches = _token_batches(model, sentences, _limits(model, batch_size, len(sentences), workers))
    compute = run or partial(_vectors, model)

    def encode(batch: Any) -> tuple[slice | torch.Tensor, torch.Tensor]:
        rows, features = (batch, _static_features(model, sentences[batch])) if static else batch
        with torch.inference_mode():  # a setting of each thread
            return rows, compute(features)

    made = _pipelined(encode, batches, workers) if workers > 1 else (encode(batch) for batch in batches)
    out: torch.Tensor | None = None
    with (
        Progress(len(sentences), desc="Encoding", show=progress) as bar,
        closing(batches),
        closing(made),
    ):
        try:
            for rows, vectors in made:
                if out is None:
                    out = vectors.new_empty(len(sentences), vectors.shape[1])
                out[rows] = vectors
                bar.update(len(vectors))
        except UnknownTokensError:
            return None
    return out


def _token_batches(
    model: SentenceTransformer, sentences: list[str], limits: tuple[int, int]
) -> Generator[Batch, None, None]:
    """Yield batches of padded tokens, each with the row numbers of its sentences."""
    fill = {"input_ids": model.tokenizer.pad_token_id, **FILL}
    starts = range(0, len(sentences), _TOKENIZED)
    parts = (sentences[start : start + _TOKENIZED] for start in starts)
    with closing(_pipelined(find_tokenizer(model, sentences), parts)) as found:
        for start, part in zip(starts, found, strict=True):
            for rows in _batches(part.lengths, *limits):
                lengths = part.lengths[rows]
                there = to_device(torch.from_numpy(np.stack([start + rows, lengths])), model.device)
                mask = torch.arange(max(1, lengths[0]), device=model.device) < there[1][:, None]
                batch = {name: _padded(mask, fill[name], value) for name, value in part.select(rows).items()}
                yield there[0], {**part.others, **batch}


def _static_features(model: SentenceTransformer, sentences: list[str]) -> dict[str, Any]:
    """Return the tokens of a batch for a static model, which needs no padding."""
    static: Any = model[0]
    ids, lengths = join_ids(static.tokenizer.encode_batch_fast(sentences, add_special_tokens=False))
    features = {"input_ids": ids, "offsets": np.cumsum(lengths) - lengths}
    return {name: to_device(torch.from_numpy(value), model.device) for name, value in features.items()}


@contextmanager
def one_thread(model: Any) -> Iterator[None]:
    """Limit torch to one thread if a model is static: adding a few vectors is faster than synchronizing.

    The limit is per process: of several concurrent encodings, the first stores the value to restore.
    """
    global _encodings, _threads
    if model is None or not is_static(model):
        yield
        return
    with _LOCK:
        _threads = _torch_threads()
        _encodings += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            _encodings -= 1
            torch.set_num_threads(_threads)


def _torch_threads() -> int:
    """Return the number of torch's threads outside of `one_thread`."""
    return _threads if _encodings else torch.get_num_threads()


def _vectors(model: SentenceTransformer, features: dict[str, Any]) -> torch.Tensor:
    """Return the vectors of a batch."""
    vectors: torch.Tensor = model(features)["sentence_embedding"]
    return vectors if model.truncate_dim is None else vectors[:, : model.truncate_dim]


def _pipelined(function: Callable[[S], T], items: Iterable[S], workers: int = 1) -> Generator[T, None, None]:
    """Apply a function to each item and yield the results in order; threads work ahead.

    >>> list(_pipelined(len, [["a"], ["b", "c"]]))
    [1, 2]
    """
    with ThreadPoolExecutor(workers) as pool:
        pending: deque[Future[T]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def is_plain(model: Any) -> bool:
    """Return whether a transformer's ``encode`` does only what this module does, prompts aside."""
    return (
        _encodes_plainly(model, "Transformer")
        and "message" not in getattr(model[0], "modality_config", {})
        and "padding_side" not in str(getattr(model[0], "processing_kwargs", None))
        and not getattr(model, "_can_flatten_inputs", bool)()
        and getattr(model.tokenizer, "padding_side", None) == "right"
        and model.tokenizer.pad_token_id is not None
        and not model.tokenizer.pad_token_type_id
    )


def is_static(model: Any) -> bool:
    """Return whether a static model's ``encode`` does only what this module does."""
    return _encodes_plainly(model, "StaticEmbedding")


def _encodes_plainly(model: Any, first: str) -> bool:
    """Return whether the first module is of this class, and ``encode`` is the standard one."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    return (
        isinstance(model, SentenceTransformer)
        and type(model).encode is SentenceTransformer.encode
        and type(model[0]) is getattr(modules, first)
        and getattr(model, "_distributed_inference", None) is None
        and model.device.type in ("cpu", "cuda")
    )


def _limits(
    model: SentenceTransformer, batch_size: int, number: int = 1, workers: int = 1
) -> tuple[int, int]:
    """Return the maximum number of sentences in a batch, and of tokens including padding."""
    if workers > 1:  # give each worker some of few sentences
        return min(batch_size, -(-number // workers)), _ALONE
    if model.device.type == "cpu":
        return batch_size, _CACHED * torch.get_num_threads()
    return batch_size * _READ, batch_size * _READ


def _batches(lengths: np.ndarray, most: int, tokens: int) -> Iterator[np.ndarray]:
    """Yield the row numbers of each batch, longest rows first.

    :param tokens: Maximum tokens of a batch, including padding; a single row may have more.

    >>> [rows.tolist() for rows in _batches(np.array([2, 9, 3, 2]), 2, 18)]
    [[1, 2], [0, 3]]
    >>> [rows.tolist() for rows in _batches(np.array([2, 9, 3, 2]), 9, 9)]
    [[1], [2, 0, 3]]
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        rows = order[start : start + max(1, min(most, tokens // longest))]
        yield rows
        start += len(rows)


def _padded(mask: torch.Tensor, fill: int, value: np.ndarray | int) -> torch.Tensor:
    """Return the tokens of some rows, or the same number for each, as one tensor on the mask's device.

    :param mask: Where the tensor has tokens.

    >>> mask = torch.tensor([[True, True, True], [True, False, False]])
    >>> _padded(mask, 0, np.array([5, 6, 7, 8])).tolist()
    [[5, 6, 7], [8, 0, 0]]
    """
    table = torch.full(mask.shape, fill, device=mask.device)
    if isinstance(value, int):
        return table.masked_fill_(mask, value)
    return table.masked_scatter_(mask, to_device(torch.from_numpy(value), mask.device))


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Move a tensor to a device without waiting for the GPU."""
    if tensor.device.type == "cpu" and device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor
