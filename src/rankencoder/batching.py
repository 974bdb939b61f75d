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
_READ = 512  # tokens of the longest sentences that batches are made for, whatever a model can read


def encode_by_length(
    model: SentenceTransformer, sentences: list[str], batch_size: int, *, progress: bool = False
) -> torch.Tensor | None:
    """Return what the model's own ``encode`` returns, batches being made by tokens.

    :param batch_size: Sentences of a batch. On a GPU it holds more where they are short, as many tokens as so
        many of the longest that the model reads; on a CPU fewer where they are long, as its caches are small.
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
            for rows, length in _batches(mask.sum(dim=1), *limits):
                batch = {
                    name: value[rows, :length].to(model.device) if hasattr(value, "shape") else value
                    for name, value in features.items()
                }
                vectors: torch.Tensor = model(batch)["sentence_embedding"]
                if model.truncate_dim is not None:
                    vectors = vectors[:, : model.truncate_dim]
                if out is None:
                    out = vectors.new_empty(len(sentences), vectors.shape[1])
                out[(start + rows).to(out.device)] = vectors
                bar.update(len(rows))
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
    tokens = batch_size * min(model.max_seq_length or _READ, _READ)
    return tokens, tokens


def _batches(lengths: torch.Tensor, most: int, tokens: int) -> Iterator[tuple[torch.Tensor, int]]:
    """Yield the rows of each batch and the tokens of its longest, from long to short.

    :param most: Rows of a batch.
    :param tokens: Tokens of a batch, padding counted; a single row may have more.

    >>> import torch
    >>> [(rows.tolist(), length) for rows, length in _batches(torch.tensor([2, 9, 3, 2]), 2, 18)]
    [([1, 2], 9), ([0, 3], 2)]
    >>> [(rows.tolist(), length) for rows, length in _batches(torch.tensor([2, 9, 3, 2]), 9, 9)]
    [([1], 9), ([2, 0, 3], 3)]
    """
    order = lengths.argsort(descending=True, stable=True)
    start = 0
    while start < len(order):
        length = max(1, int(lengths[order[start]]))
        rows = order[start : start + max(1, min(most, tokens // length))]
        yield rows, length
        start += len(rows)
