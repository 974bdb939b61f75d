"""Batches of sentences of nearly the same number of tokens, so that next to nothing is padding.

``SentenceTransformer.encode`` sorts sentences by their letters, whose number says little about that of
tokens: of the tokens that it has a model read of Wikipedia, a third are padding. Here a few thousand
sentences are turned into tokens at once, sorted, and only then padded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from rankencoder.progress import Progress

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    Batch = tuple[np.ndarray, dict[str, Any]]
    Run = Callable[[dict[str, Any]], torch.Tensor]

T = TypeVar("T")
_LOCK = Lock()  # for the two numbers that follow
_encodings = 0  # of static models, under way
_threads = 0  # of torch, before the first of them

_TOKENIZED = 8192  # sentences at a time
_CACHED = 384  # tokens of a batch for each thread of a CPU
_ALONE = 1024  # the same where a thread has a batch of its own
_READ = 512  # tokens of a batch on a GPU for each sentence of its size: launching kernels takes its time, too
_RAGGED: Any = {"common": {"return_tensors": None}, "text": {"padding": False}}
_PADDED_WITH = {"attention_mask": 0, "token_type_ids": 0}  # and input_ids with the tokenizer's own token
_KNOWN = ("input_ids", *_PADDED_WITH)
_ODD = (
    "",
    " \t\n",
    " The NAÏVE ﬁ e\u0301 <b>中文</b>  😀\u200b ",
    "[CLS] a [MASK] <s> <mask> </s>",
    "long " * 2000,
)


def encode_by_length(
    model: SentenceTransformer,
    sentences: list[str],
    batch_size: int,
    *,
    progress: bool = False,
    run: Run | None = None,
    workers: int = 1,
) -> torch.Tensor | None:
    """Return what the model's own ``encode`` returns, batches being made by tokens.

    A prompt is not put before the sentences: that is up to the caller.

    :param batch_size: Sentences of a batch. On a GPU it holds more where they are short, as many tokens as so
        many of 512; on a CPU fewer where they are long, as its caches are small.
    :param run: What computes the vectors of a batch, by default the model.
    :param workers: Batches at a time, each on a thread of its own.
    :return: One vector a sentence, on the model's device; None for models that want to be treated otherwise.
    """
    if sentences and is_static(model):
        return _encode_static(model, sentences, progress)
    if not sentences or not is_plain(model):
        return None
    model.eval()
    batches = _token_batches(model, sentences, _limits(model, batch_size, len(sentences), workers))
    made = _computed(run or partial(_vectors, model), batches, workers)
    out: torch.Tensor | None = None
    with (
        torch.inference_mode(),
        Progress(len(sentences), desc="Encoding", show=progress) as bar,
        closing(batches),
        closing(made),
    ):
        try:
            for rows, vectors in made:
                if out is None:
                    out = vectors.new_empty(len(sentences), vectors.shape[1])
                out[_sent(torch.from_numpy(rows), out.device)] = vectors
                bar.update(len(rows))
        except _UnknownTokensError:
            return None
    return out


class _UnknownTokensError(Exception):
    """A model's tokens are more than ids, mask and types."""


def _token_batches(
    model: SentenceTransformer, sentences: list[str], limits: tuple[int, int]
) -> Generator[Batch, None, None]:
    """Yield batches of padded tokens, each with the rows that its sentences are."""
    fill = {"input_ids": model.tokenizer.pad_token_id, **_PADDED_WITH}
    starts = range(0, len(sentences), _TOKENIZED)
    parts = (sentences[start : start + _TOKENIZED] for start in starts)
    with closing(_ahead(_tokenizer(model, sentences), parts)) as found:
        for start, features in zip(starts, found, strict=True):
            tokens = {name: value for name, value in features.items() if isinstance(value, list)}
            if "attention_mask" not in tokens or not fill.keys() >= tokens.keys():
                raise _UnknownTokensError
            lengths = np.array([len(row) for row in tokens["input_ids"]])
            for rows in _batches(lengths, *limits):
                batch = {
                    name: _padded([value[i] for i in rows], fill[name]) for name, value in tokens.items()
                }
                sent = {name: _sent(value, model.device) for name, value in batch.items()}
                yield start + rows, {**features, **sent}


def _computed(
    run: Run, batches: Iterable[Batch], workers: int
) -> Generator[tuple[np.ndarray, torch.Tensor], None, None]:
    """Yield the rows and vectors of each batch, in order.

    Threads that share a batch wait for each other at every layer; workers with batches of their own do not.
    """
    if workers == 1:
        for rows, batch in batches:
            yield rows, run(batch)
        return
    with ThreadPoolExecutor(workers) as pool:
        pending: deque[tuple[np.ndarray, Future[torch.Tensor]]] = deque()
        for rows, batch in batches:
            pending.append((rows, pool.submit(run, batch)))
            if len(pending) > workers:
                yield pending[0][0], pending.popleft()[1].result()
        while pending:
            yield pending[0][0], pending.popleft()[1].result()


def _encode_static(model: SentenceTransformer, sentences: list[str], progress: bool) -> torch.Tensor:
    """Encode with a static model: nothing is padded, so batches are large."""
    static: Any = model[0]
    model.eval()
    out = []
    with (
        torch.inference_mode(),
        _one_thread(),
        Progress(len(sentences), desc="Encoding", show=progress) as bar,
    ):
        for start in range(0, len(sentences), _TOKENIZED):
            part = sentences[start : start + _TOKENIZED]
            rows = [row.ids for row in static.tokenizer.encode_batch_fast(part, add_special_tokens=False)]
            ids = np.fromiter(chain.from_iterable(rows), np.int64)
            offsets = np.cumsum([0, *map(len, rows[:-1])])
            features = {"input_ids": torch.from_numpy(ids), "offsets": torch.from_numpy(offsets)}
            out.append(
                _vectors(model, {name: _sent(value, model.device) for name, value in features.items()})
            )
            bar.update(len(part))
    return torch.cat(out)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread: on busy cores, waiting for others takes longer than adding a few vectors.

    The number is the whole process': of several encodings at a time, the first knows what to restore.
    """
    global _encodings, _threads
    with _LOCK:
        _threads = _threads if _encodings else torch.get_num_threads()
        _encodings += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            _encodings -= 1
            torch.set_num_threads(_threads)


def _vectors(model: SentenceTransformer, features: dict[str, Any]) -> torch.Tensor:
    """Return the vectors of a batch."""
    vectors: torch.Tensor = model(features)["sentence_embedding"]
    return vectors if model.truncate_dim is None else vectors[:, : model.truncate_dim]


def _tokenizer(model: SentenceTransformer, sentences: list[str]) -> Callable[[list[str]], dict[str, Any]]:
    """Return what finds the tokens of sentences, ragged, as the model's ``preprocess`` does.

    Where there are many, it is the tokenizer's core, which works on all cores: what sentence-transformers and
    transformers do around it works on one, and takes longer. If the core cannot be copied, or finds other
    tokens in a sample and in odd sentences, ``preprocess`` is taken.
    """
    whole: Callable[[list[str]], dict[str, Any]] = partial(model.preprocess, processing_kwargs=_RAGGED)
    core = getattr(model.tokenizer, "backend_tokenizer", None)
    if core is None or len(sentences) <= _TOKENIZED or model.modalities != ["text"]:
        return whole  # (a model of images looks at those that a sentence is the address of)
    sample = [*_ODD, *sorted(sentences[:_TOKENIZED], key=len)[::-64]]  # from the longest on
    try:
        expected = dict(whole(sample))  # which also tells the core where to cut
        own = type(core).from_str(core.to_str())  # nobody else tells this one otherwise
    except Exception:  # of no other class: letters that it lacks, or a part that is written in Python
        return whole
    if any(isinstance(value, list) and name not in _KNOWN for name, value in expected.items()):
        return whole
    own.no_padding()
    own.encode_special_tokens = core.encode_special_tokens

    def tokens(part: list[str]) -> dict[str, Any]:
        ids = [row.ids for row in own.encode_batch_fast(part)]
        found = {"input_ids": ids, "attention_mask": [[1] * len(row) for row in ids]}
        if "token_type_ids" in expected:
            found["token_type_ids"] = [[0] * len(row) for row in ids]
        return {**expected, **found}

    return tokens if tokens(sample) == expected else whole


def _ahead(make: Callable[[list[str]], T], parts: Iterable[list[str]]) -> Generator[T, None, None]:
    """Yield what is made of each part; that of the next is made meanwhile, in another thread.

    >>> list(_ahead(len, [["a"], ["b", "c"]]))
    [1, 2]
    """
    with ThreadPoolExecutor(1) as pool:
        pending: deque[Future[T]] = deque()
        for part in parts:
            pending.append(pool.submit(make, part))
            if len(pending) > 1:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def is_plain(model: Any) -> bool:
    """Return whether the ``encode`` of a transformer does nothing but what is done here, prompts aside."""
    from sentence_transformers.sentence_transformer.modules import Transformer

    return (
        _encodes_plainly(model, Transformer)
        and "message" not in getattr(model[0], "modality_config", {})
        and "padding_side" not in str(getattr(model[0], "processing_kwargs", None))
        and not getattr(model, "_can_flatten_inputs", bool)()
        and getattr(model.tokenizer, "padding_side", None) == "right"
        and model.tokenizer.pad_token_id is not None
        and not model.tokenizer.pad_token_type_id
    )


def is_static(model: Any) -> bool:
    """Return whether the ``encode`` of a static model does nothing but what is done here."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    return _encodes_plainly(model, StaticEmbedding)


def _encodes_plainly(model: Any, first: type) -> bool:
    """Return whether a model begins with a module of this class, and nothing else changes its vectors."""
    from sentence_transformers import SentenceTransformer

    return (
        isinstance(model, SentenceTransformer)
        and type(model).encode is SentenceTransformer.encode
        and type(model[0]) is first
        and getattr(model, "_distributed_inference", None) is None
        and model.device.type in ("cpu", "cuda")
    )


def _limits(
    model: SentenceTransformer, batch_size: int, number: int = 1, workers: int = 1
) -> tuple[int, int]:
    """Return how many sentences a batch may have at most, and how many tokens, padding counted."""
    if workers > 1:  # also of a few sentences each is to have some
        return min(batch_size, -(-number // workers)), _ALONE
    if model.device.type == "cpu":
        return batch_size, _CACHED * torch.get_num_threads()
    return batch_size * _READ, batch_size * _READ


def _batches(lengths: np.ndarray, most: int, tokens: int) -> Iterator[np.ndarray]:
    """Yield the rows of each batch, from long to short.

    :param tokens: Tokens of a batch, padding counted; a single row may have more.

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


def _padded(rows: list[list[int]], fill: int) -> torch.Tensor:
    """Return rows as one tensor, the short ones filled up on the right.

    >>> _padded([[5, 6, 7], [8]], 0)
    tensor([[5, 6, 7],
            [8, 0, 0]])
    """
    lengths = np.array([len(row) for row in rows])
    table = np.full((len(rows), max(1, lengths.max(initial=0))), fill, dtype=np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = np.fromiter(chain.from_iterable(rows), np.int64)
    return torch.from_numpy(table)


def _sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on a device; what a GPU computes meanwhile is not waited for."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
