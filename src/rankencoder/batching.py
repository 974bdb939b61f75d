"""Batches of sentences of nearly the same number of tokens, so that next to nothing is padding.

``SentenceTransformer.encode`` sorts sentences by their letters, whose number says little about that of
tokens: of the tokens that it has a model read of Wikipedia, a third are padding. Here a few thousand
sentences are turned into tokens at once, and then sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

_TOKENIZED = 4096  # sentences at a time
_CACHED = 384  # tokens of a batch for each thread of a CPU
_READ = 512  # tokens of a batch on a GPU for each sentence of its size: launching kernels takes its time, too


def encode_by_length(
    model: SentenceTransformer, sentences: list[str], batch_size: int, *, progress: bool = False
) -> torch.Tensor | None:
    """Return what the model's own ``encode`` returns, batches being made by tokens.

    :param batch_size: Sentences of a batch. On a GPU it holds more where they are short, as many tokens as so
        many of 512; on a CPU fewer where they are long, as its caches are small.
    :return: One vector a sentence, on the model's device; None for models that want to be treated otherwise.
    """
    import torch
    from tqdm.auto import tqdm

    if not sentences or not _is_plain(model):
        return None
    model.eval()
    limits = _limits(model, batch_size)
    out: torch.Tensor | None = None
    with torch.inference_mode(), tqdm(total=len(sentences), desc="Encoding", disable=not progress) as bar:
        for start in range(0, len(sentences), _TOKENIZED):
            features = model.preprocess(sentences[start : start + _TOKENIZED])
            mask = _mask(features)
            if mask is None:
                return None
            lengths, order = mask.sum(dim=1).sort(descending=True, stable=True)
            places = _sent(order, model.device)
            tensors = {
                name: _sent(value, model.device)[places]
                for name, value in features.items()
                if isinstance(value, torch.Tensor)
            }
            for rows, length in _batches(lengths.tolist(), *limits):
                batch = {name: value[rows, :length].contiguous() for name, value in tensors.items()}
                vectors: torch.Tensor = model({**features, **batch})["sentence_embedding"]
                if model.truncate_dim is not None:
                    vectors = vectors[:, : model.truncate_dim]
                if out is None:
                    out = vectors.new_empty(len(sentences), vectors.shape[1])
                out[start + places[rows]] = vectors
                bar.update(rows.stop - rows.start)
    return out


def _is_plain(model: Any) -> bool:
    """Say whether a model's ``encode`` does nothing but what is done here."""
    from sentence_transformers import SentenceTransformer

    return (
        isinstance(model, SentenceTransformer)
        and type(model).encode is SentenceTransformer.encode
        and model.default_prompt_name is None
        and getattr(model, "_distributed_inference", None) is None
        and not getattr(model, "_can_flatten_inputs", bool)()
        and model.device.type in ("cpu", "cuda")
    )


def _mask(features: dict[str, Any]) -> torch.Tensor | None:
    """Return the mask of features that are all one row a sentence, padded on the right; else None."""
    import torch

    mask = features.get("attention_mask")
    if not isinstance(mask, torch.Tensor) or mask.ndim != 2:
        return None
    tensors = [value for value in features.values() if isinstance(value, torch.Tensor)]
    if any(value.shape != mask.shape for value in tensors) or not bool((mask[:, 1:] <= mask[:, :-1]).all()):
        return None
    return mask


def _limits(model: SentenceTransformer, batch_size: int) -> tuple[int, int]:
    """Return how many sentences a batch may have at most, and how many tokens, padding counted."""
    import torch

    if model.device.type == "cpu":
        return batch_size, _CACHED * torch.get_num_threads()
    return batch_size * _READ, batch_size * _READ


def _sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on a device; what a GPU computes meanwhile is not waited for."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def _batches(lengths: list[int], most: int, tokens: int) -> Iterator[tuple[slice, int]]:
    """Yield the rows of each batch and the tokens of its longest.

    :param lengths: Tokens of each row, from long to short.
    :param most: Rows of a batch.
    :param tokens: Tokens of a batch, padding counted; a single row may have more.

    >>> list(_batches([9, 3, 2, 2], 2, 18))
    [(slice(0, 2, None), 9), (slice(2, 4, None), 2)]
    >>> list(_batches([9, 3, 2, 2], 9, 9))
    [(slice(0, 1, None), 9), (slice(1, 4, None), 3)]
    """
    start = 0
    while start < len(lengths):
        length = max(1, lengths[start])
        stop = min(len(lengths), start + max(1, min(most, tokens // length)))
        yield slice(start, stop), length
        start = stop
