"""Wrap any encoder as a function from sentences to checked unit vectors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch

from rankencoder.backends.backend import Accelerated, Backend, accelerate, check_backend
from rankencoder.batching import encode_by_length, one_thread
from rankencoder.encoder_sources import join_prompt, load_sentence_transformer, split_prompt
from rankencoder.errors import InputError, shorten
from rankencoder.fingerprints import digest, model_digest, vectors_digest
from rankencoder.io.corpus import check_sentences
from rankencoder.progress import Progress

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    class _Encodes(Protocol):
        def encode(self, sentences: list[str], /) -> Any: ...

    EncoderLike = str | Path | SentenceTransformer | _Encodes | Callable[[list[str]], Any]


PROBE = (
    "A cat sleeps on the warm windowsill.",
    "The committee postponed its decision until the spring.",
    "2 + 2 = 4",
    # longer than the maximum length of some encoders
    "When the harbour froze in the second week of January, the fishermen, who had mended their nets since "
    "the autumn storms and waited for better prices, pulled their boats ashore, walked home along the dike, "
    "and did not speak of the sea again until the ice broke, with a noise that woke the whole village, on a "
    "mild night in the middle of March.",
)
"""Sentences whose vectors tell one encoder from another."""

_SAME_ENCODER = 0.999  # cosine: half precision and other hardware are above it, other checkpoints below


class Encoder:
    """A sentence encoder that returns float32 unit vectors, or an error that names the sentence.

    :param source: A SentenceTransformer, its folder or hub name, the folder of a training run, a callable
        from a list of strings to an array with one row per string (an API client, say), or any object with
        such an ``encode``. A name may carry a prompt: ``"intfloat/e5-small-v2?prompt=query: "``.
    :param prompt: Text to prepend to every sentence, as E5 and BGE need it.
    :param revision: The branch, tag or commit of a hub name.
    :param device: The device for a model loaded by name; by default the best available one.
    :param batch_size: Sentences per call of the model.
    :param backend: "torch"; "openvino" or "onnx", which run a converted copy of the model on the CPU; or
        "auto", the fastest installed one whose similarities agree with torch in float32 (Spearman's
        correlation of at least 0.999). A static model stays with torch. "openvino:bf16" also sets the
        precision.
    :param precision: "fp32" (the default), "bf16" or "int8"; "auto" chooses the fastest faithful one.
    """

    def __init__(
        self,
        source: EncoderLike,
        *,
        prompt: str = "",
        revision: str | None = None,
        device: str | None = None,
        batch_size: int = 32,
        backend: str = "torch",
        precision: str | None = None,
    ) -> None:
        backend, _, own = backend.partition(":")
        precision = precision or own or None
        check_backend(backend, precision)
        self.batch_size = batch_size
        self.prompt = prompt
        self.model: SentenceTransformer | None = None
        self.function: Callable[[list[str]], Any] | None = None
        if isinstance(source, (str, Path)):
            name, own_prompt = split_prompt(str(source))
            self.prompt = prompt or own_prompt
            self.model = load_sentence_transformer(name, revision=revision, device=device)
        elif hasattr(source, "encode") and hasattr(source, "preprocess"):
            self.model = cast("SentenceTransformer", source)
            card = getattr(source, "model_card_data", None)
            known = getattr(card, "base_model", None) or getattr(card, "model_id", None)
            name = known or type(source).__name__
        elif callable(encode := getattr(source, "encode", source)):
            self.function = encode
            kind = getattr(source, "__qualname__", type(source).__qualname__)
            name = str(getattr(source, "name", kind))
        else:
            raise InputError(
                f"{type(source).__name__} is not an encoder: pass a SentenceTransformer, its folder or hub "
                "name, or a function from a list of strings to an array"
            )
        self.name = join_prompt(name, self.prompt)
        self._accelerated: Accelerated | None = None
        if self.model is not None and self._reads_prompts(self.model):
            self._accelerated = accelerate(self.model, backend, precision)

    @property
    def backend(self) -> Backend:
        """The backend that computes the vectors, with its fidelity."""
        return self._accelerated.backend if self._accelerated else Backend()

    @cached_property
    def dimension(self) -> int:
        """Dimensions of the vectors."""
        return int(self.probe().shape[1])

    @property
    def device(self) -> torch.device:
        """Device of the vectors."""
        return self.model.device if self.model is not None else torch.device("cpu")

    def __call__(self, sentences: Sequence[str], *, progress: bool = False) -> torch.Tensor:
        """Return float32 unit vectors on the encoder's device, ``[len(sentences), dimension]``."""
        vectors = self.raw(sentences, progress=progress)
        with one_thread(self.model):
            return unit(vectors)

    def raw(self, sentences: Sequence[str], *, progress: bool = False) -> torch.Tensor:
        """Encode sentences without normalizing the vectors."""
        sentences = list(sentences)
        if self.model is None:
            return self._call_function(sentences, progress)
        with _parallel_tokenizers(), one_thread(self.model):
            vectors = self._call_model(self.model, sentences, progress).float()
            if vectors.is_inference():
                vectors = vectors.clone()
            self._check(vectors, sentences)
        return vectors

    def encode(self, sentences: str | Iterable[str], *, progress: bool = False) -> np.ndarray:
        """Check and encode sentences (see `RankEncoder.encode`)."""
        vectors = self(check_sentences(sentences), progress=progress).cpu().numpy()
        return np.asarray(vectors[0] if isinstance(sentences, str) else vectors)

    def count_tokens(self, sentences: Sequence[str]) -> tuple[list[int], float]:
        """Return the token counts of sentences (words without a tokenizer), and the maximum length."""
        tokenizer: Any = getattr(self.model, "tokenizer", None)
        if not callable(tokenizer):
            return [len(text.split()) for text in sentences], float("inf")
        prompted = [self.prompt + text for text in sentences]
        rows = tokenizer(prompted, add_special_tokens=True, verbose=False)["input_ids"]
        return [len(row) for row in rows], getattr(self.model, "max_seq_length", None) or float("inf")

    def fingerprint(self) -> str:
        """Return a digest of model and backend, the same on all hardware."""
        if self.backend.is_reference:
            return self.identity()
        return digest([self.identity(), self.backend.name, self.backend.precision])

    def identity(self) -> str:
        """Return a digest of the model without its backend.

        For a SentenceTransformer it covers weights and settings, for anything else the rounded vectors of the
        probe sentences.
        """
        if self.model is None:
            return vectors_digest(self.probe())
        own = model_digest(self.model)
        return digest([self.prompt, own]) if self.prompt else own

    def probe(self) -> np.ndarray:
        """Return the vectors of the probe sentences, which identify the encoder."""
        return np.asarray(self(PROBE).cpu().numpy())

    def check_probe(
        self, probe: np.ndarray, owner: str, *, otherwise: str = "build the reference again"
    ) -> None:
        """Check that this encoder made the owner's probe vectors."""
        own = self.probe()
        if own.shape != probe.shape:
            reason = f"its vectors have {own.shape[1]} dimensions, not {probe.shape[-1] if probe.ndim else 1}"
        elif not (cosines := (own * probe).sum(axis=1)).min() >= _SAME_ENCODER:  # or NaN
            probed = PROBE[int(cosines.argmin())]
            reason = f"its vector of {probed!r} has cosine {cosines.min():.3f} with the stored one"
        else:
            return
        raise InputError(
            f"{owner}, and {self.name!r} is a different encoder ({reason}): use the same one, or {otherwise}"
        )

    def _call_model(self, model: SentenceTransformer, sentences: list[str], progress: bool) -> torch.Tensor:
        if self._reads_prompts(model):
            prompted = [self._prompt(model) + sentence for sentence in sentences]
            encode = self._accelerated.encode if self._accelerated else partial(encode_by_length, model)
            found = encode(prompted, self.batch_size, progress=progress)
            if found is not None:
                return found
        return model.encode(
            sentences,
            prompt=self.prompt or None,
            batch_size=self.batch_size,
            convert_to_tensor=True,
            show_progress_bar=progress and not Progress.in_log,
        )

    def _prompt(self, model: SentenceTransformer) -> str:
        return self.prompt or model.prompts.get(model.default_prompt_name or "") or ""

    def _reads_prompts(self, model: SentenceTransformer) -> bool:
        """Return whether the prompt is pooled like the rest of the sentence."""
        return not self._prompt(model) or all(getattr(module, "include_prompt", True) for module in model)

    def _call_function(self, sentences: list[str], progress: bool) -> torch.Tensor:
        vectors = [torch.zeros(0, vars(self).get("dimension", 0))]
        with Progress(len(sentences), desc="Encoding", show=progress) as bar:
            for start in range(0, len(sentences), self.batch_size):
                batch = sentences[start : start + self.batch_size]
                vectors.append(self._call_once(batch))
                self._check(vectors[-1], batch)
                bar.update(len(batch))
        return torch.cat(vectors[1:] or vectors)

    def _call_once(self, batch: list[str]) -> torch.Tensor:
        assert self.function is not None
        found = self.function([self.prompt + sentence for sentence in batch])
        try:
            rows = found if isinstance(found, torch.Tensor) else torch.from_numpy(np.array(found, np.float32))
        except (TypeError, ValueError) as error:
            raise InputError(f"encoder {self.name!r} did not return an array of numbers: {error}") from error
        if rows.ndim != 2 or len(rows) != len(batch):
            raise InputError(
                f"encoder {self.name!r} was given {len(batch)} sentences and returned an array of shape "
                f"{list(rows.shape)}: it must return one row per sentence"
            )
        return rows.detach().to("cpu", torch.float32)

    def _check(self, vectors: torch.Tensor, sentences: list[str]) -> None:
        if not sentences:
            return
        earlier = vars(self).setdefault("dimension", vectors.shape[1])
        if vectors.shape[1] != earlier:
            raise InputError(
                f"encoder {self.name!r} returned {vectors.shape[1]} dimensions, but {earlier} before"
            )
        if (found := find_invalid(vectors)) is not None:
            row, what, number = found
            raise InputError(
                f"encoder {self.name!r} returned a {what} vector for {shorten(sentences[row])!r} "
                f"({number} of {len(sentences)} sentences): drop these sentences or fix the encoder"
            )


def find_invalid(vectors: torch.Tensor) -> tuple[int, str, int] | None:
    """Return the first invalid row, its fault ("NaN or infinite" or "zero"), and how many are invalid."""
    largest = _largest(vectors)
    for invalid, what in ((~largest.isfinite(), "NaN or infinite"), (largest == 0, "zero")):
        if bool(invalid.any()):
            return int(invalid.nonzero()[0]), what, int(invalid.sum())
    return None


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Scale vectors to unit length, even very small or large ones; zero stays zero."""
    # scaled first: squares of very small or large values underflow or overflow
    scaled = vectors / _largest(vectors).clamp(min=torch.finfo(vectors.dtype).tiny)[:, None]
    return torch.nn.functional.normalize(scaled, dim=1, out=scaled)


def _largest(vectors: torch.Tensor) -> torch.Tensor:
    """Return the largest absolute value of each row, without a copy of all values."""
    return torch.maximum(vectors.amax(dim=1), -vectors.amin(dim=1))


@contextmanager
def _parallel_tokenizers() -> Iterator[None]:
    """Let tokenizers use all cores within the block only: processes forked later could deadlock."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "true"
    try:
        yield
    finally:
        os.environ.pop(name, None)  # another thread may have been here
        if before is not None:
            os.environ[name] = before
