"""Any encoder, seen as a function from sentences to unit vectors that is checked at every call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rankencoder.batching import encode_by_length
from rankencoder.errors import InputError

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

    EncoderLike = str | Path | SentenceTransformer | Callable[[list[str]], Any]

PROBE = (
    "A cat sleeps on the warm windowsill.",
    "The committee postponed its decision until the spring.",
    "2 + 2 = 4",
    # longer than some encoders are set to read
    "When the harbour froze in the second week of January, the fishermen, who had mended their nets since "
    "the autumn storms and waited for better prices, pulled their boats ashore, walked home along the dike, "
    "and did not speak of the sea again until the ice broke, with a noise that woke the whole village, on a "
    "mild night in the middle of March.",
)
"""Sentences whose vectors tell one encoder from another."""

_READ = [
    *("*config*.json", "modules.json", "tokenizer*.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.*", "merges.txt", "*.model", "*.safetensors"),
]
_SAME_ENCODER = 0.999  # cosine: half precision and other hardware stay above, another checkpoint falls below


class Encoder:
    """A sentence encoder as this package uses it: float32 unit vectors, or an error that names the sentence.

    :param source: A SentenceTransformer, its folder or hub name, or a callable from a list of strings to an
        array with one row per string (an API client, say).
    :param revision: The branch, tag or commit of a hub name.
    :param device: Where to run a model that is loaded by name; by default the best device there is.
    :param batch_size: Sentences per call of the model.
    """

    def __init__(
        self,
        source: EncoderLike,
        *,
        revision: str | None = None,
        device: str | None = None,
        batch_size: int = 32,
    ) -> None:
        self.batch_size = batch_size
        self.model: SentenceTransformer | None = None
        self.function: Callable[[list[str]], Any] | None = None
        if isinstance(source, (str, Path)):
            self.model = load_sentence_transformer(str(source), revision=revision, device=device)
            self.name = str(source)
        elif hasattr(source, "encode") and hasattr(source, "preprocess"):
            self.model = cast("SentenceTransformer", source)
            self.name = _model_name(source)
        elif callable(source):
            self.function = source
            self.name = getattr(source, "__qualname__", type(source).__qualname__)
        else:
            raise InputError(
                f"{type(source).__name__} is no encoder: give a SentenceTransformer, its folder or hub name, "
                "or a function from a list of strings to an array"
            )
        self.dimension: int | None = None

    @property
    def device(self) -> torch.device:
        """The device that the vectors are on."""
        import torch

        return self.model.device if self.model is not None else torch.device("cpu")

    def __call__(self, sentences: Sequence[str], *, progress: bool = False) -> torch.Tensor:
        """Encode sentences.

        :return: ``[len(sentences), dimension]`` float32 unit vectors on the encoder's device.
        :raises InputError: If the encoder returns anything but one finite, non-zero vector per sentence.
        """
        return unit(self.raw(sentences, progress=progress))

    def raw(self, sentences: Sequence[str], *, progress: bool = False) -> torch.Tensor:
        """Encode sentences and leave the vectors at the length that the encoder gives them."""
        import torch

        sentences = list(sentences)
        if self.model is not None:
            with _parallel_tokenizers():
                found = encode_by_length(self.model, sentences, self.batch_size, progress=progress)
                vectors = (
                    self.model.encode(
                        sentences,
                        batch_size=self.batch_size,
                        convert_to_tensor=True,
                        show_progress_bar=progress,
                    )
                    if found is None
                    else found
                )
            vectors = vectors.to(torch.float32).clone()  # out of inference mode
        else:
            vectors = self._call_function(sentences, progress)
        self._check(vectors, sentences)
        return vectors

    def probe(self) -> np.ndarray:
        """Return the vectors of the probe sentences: the encoder's fingerprint."""
        return np.asarray(self(PROBE).cpu().numpy())

    def check_probe(
        self, probe: np.ndarray, owner: str, *, otherwise: str = "build the reference again"
    ) -> None:
        """Make sure that vectors with this fingerprint came from this encoder.

        :param owner: What to call these vectors.
        :param otherwise: What to do where no such encoder is to be had.
        :raises InputError: If they came from another one.
        """
        own = self.probe()
        if own.shape != probe.shape:
            reason = f"its vectors have {own.shape[1]} numbers, not {probe.shape[-1] if probe.ndim else 1}"
        elif not (cosines := (own * probe).sum(axis=1)).min() >= _SAME_ENCODER:  # nor NaN
            probed = PROBE[int(cosines.argmin())]
            reason = f"its vector of {probed!r} has cosine {cosines.min():.3f} with the stored one"
        else:
            return
        raise InputError(
            f"{owner}, and {self.name!r} is another ({reason}): use the same encoder, or {otherwise}"
        )

    def _call_function(self, sentences: list[str], progress: bool) -> torch.Tensor:
        import torch
        from tqdm.auto import trange

        assert self.function is not None
        batches: list[np.ndarray] = []
        for start in trange(0, len(sentences), self.batch_size, disable=not progress, desc="Batches"):
            batch = sentences[start : start + self.batch_size]
            rows = self.function(batch)
            try:
                array = (
                    rows.detach().cpu().float().numpy()
                    if isinstance(rows, torch.Tensor)
                    else np.asarray(rows)
                )
                array = array.astype(np.float32)
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"encoder {self.name!r} did not return an array of numbers: {error}"
                ) from error
            if array.ndim != 2 or len(array) != len(batch):
                raise InputError(
                    f"encoder {self.name!r} was given {len(batch)} sentences and returned an array of shape "
                    f"{list(array.shape)}: it must return one row per sentence"
                )
            if batches and array.shape[1] != batches[0].shape[1]:
                raise InputError(
                    f"encoder {self.name!r} returned {array.shape[1]} numbers, after {batches[0].shape[1]}"
                )
            batches.append(array)
        return torch.from_numpy(np.concatenate(batches)) if batches else torch.zeros(0, self.dimension or 0)

    def _check(self, vectors: torch.Tensor, sentences: list[str]) -> None:
        import torch

        if not sentences:
            return
        if self.dimension is not None and vectors.shape[1] != self.dimension:
            raise InputError(
                f"encoder {self.name!r} returned {vectors.shape[1]} numbers, earlier {self.dimension}"
            )
        self.dimension = vectors.shape[1]
        largest = vectors.abs().amax(dim=1)
        for bad, what in ((~torch.isfinite(largest), "NaN or infinite"), (largest == 0, "zero")):
            if bool(bad.any()):
                sentence = sentences[int(bad.nonzero()[0])]
                raise InputError(
                    f"encoder {self.name!r} returned a {what} vector for {shorten(sentence)!r} "
                    f"({int(bad.sum())} of {len(sentences)} sentences): leave such out, or mend the encoder"
                )


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Return vectors at unit length, however small or large their numbers are."""
    import torch

    # scaled first: the squares of very small or large numbers would not be numbers
    return torch.nn.functional.normalize(vectors / vectors.abs().amax(dim=1, keepdim=True), dim=1)


@contextmanager
def _parallel_tokenizers() -> Iterator[None]:
    """Let tokenizers use all cores, but not after: processes forked later could wait forever."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "true"
    try:
        yield
    finally:
        os.environ[name] = before or "false"


def load_sentence_transformer(name: str, *, revision: str | None, device: str | None) -> SentenceTransformer:
    """Load a SentenceTransformer from a folder or the hub: safetensors only, no code from the repository.

    :raises InputError: If there is none.
    """
    from sentence_transformers import SentenceTransformer

    if device is not None:
        check_device(device)
    check_encoder_name(name, revision)
    folder = Path(name)
    check_readable(folder)
    try:
        model = SentenceTransformer(
            name, revision=revision, device=device, model_kwargs={"use_safetensors": True}
        )
        model.encode(PROBE[0], show_progress_bar=False)  # what does not fit together fails here
        return model
    except Exception as error:  # whatever a damaged or foreign folder makes the libraries raise
        where = f"{name} is damaged or not an encoder" if folder.exists() else "not a usable encoder"
        raise InputError(f"cannot load encoder {name!r} ({where}): {first_line(error)}") from error


def check_encoder_name(name: str, revision: str | None = None) -> None:
    """Look whether there is an encoder of this name, without loading it.

    :raises InputError: If there is none.
    """
    folder = Path(name)
    if not folder.exists():
        check_hub(name, revision)
    elif not (folder / "config.json").exists() and not (folder / "modules.json").exists():
        raise InputError(
            f"{name} is no encoder: a SentenceTransformer folder has a modules.json or config.json"
        )


def check_readable(folder: Path) -> None:
    """Make sure that all files of a model can be read: libraries would go on without some of them.

    :raises InputError: If one cannot.
    """
    for path in (found for name in _READ for found in (*folder.glob(name), *folder.glob(f"*/{name}"))):
        try:
            path.open("rb").close()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error


def check_device(device: str) -> None:
    """Make sure that something can be computed on a device.

    :raises InputError: If not.
    """
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"cannot run on device {device!r}: {first_line(error)}") from error


def check_hub(name: str, revision: str | None, *, what: str = "encoder") -> None:
    """Look for one small file of a hub name, so that a wrong one is told of at once and in one line."""
    import logging

    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")  # as sentence-transformers has it
    try:
        hf_hub_download(name, "modules.json", revision=revision, cache_dir=cache, etag_timeout=5)
    except LocalEntryNotFoundError as error:
        if isinstance(try_to_load_from_cache(name, "config.json", cache, revision), str):
            return
        raise InputError(
            f"cannot load {what} {name!r}: no such folder, not in the hub's cache, and no hub within reach"
        ) from error
    except EntryNotFoundError:
        return  # the repository is there; it just holds a plain transformer
    except Exception as error:  # no such repository or revision, no valid name, no network
        raise InputError(
            f"cannot load {what} {name!r}: no such folder, nor on the hub: {first_line(error)}"
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def shorten(text: str, width: int = 60) -> str:
    """Return a text cut to a width, with an ellipsis where it was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def _model_name(model: Any) -> str:
    card = getattr(model, "model_card_data", None)
    return getattr(card, "base_model", None) or getattr(card, "model_id", None) or type(model).__name__
