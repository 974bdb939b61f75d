"""Any encoder, seen as a function from sentences to unit vectors that is checked at every call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rankencoder.errors import InputError

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

    EncoderLike = str | Path | SentenceTransformer | Callable[[list[str]], Any]

PROBE = (
    "A cat sleeps on the warm windowsill.",
    "The committee postponed its decision until the spring.",
    "2 + 2 = 4",
)
"""Sentences whose vectors tell one encoder from another."""

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
        import torch

        sentences = list(sentences)
        if self.model is not None:
            vectors = self.model.encode(
                sentences, batch_size=self.batch_size, convert_to_tensor=True, show_progress_bar=progress
            )
            vectors = vectors.to(torch.float32).clone()  # out of inference mode
        else:
            vectors = self._call_function(sentences, progress)
        self._check(vectors, sentences)
        return torch.nn.functional.normalize(vectors, dim=1)

    def probe(self) -> np.ndarray:
        """Return the vectors of the probe sentences: the encoder's fingerprint."""
        return np.asarray(self(PROBE).cpu().numpy())

    def check_probe(self, probe: np.ndarray, owner: str) -> None:
        """Make sure that vectors with this fingerprint came from this encoder.

        :raises InputError: If they came from another one.
        """
        own = self.probe()
        if own.shape[1] != probe.shape[1]:
            reason = f"its vectors have {own.shape[1]} numbers, not {probe.shape[1]}"
        elif (cosines := (own * probe).sum(axis=1)).min() < _SAME_ENCODER:
            probed = PROBE[int(cosines.argmin())]
            reason = f"its vector of {probed!r} has cosine {cosines.min():.3f} with the stored one"
        else:
            return
        raise InputError(
            f"{owner}, and {self.name!r} is another ({reason}): use the same encoder, or build the reference "
            "again"
        )

    def _call_function(self, sentences: list[str], progress: bool) -> torch.Tensor:
        import torch
        from tqdm.auto import trange

        assert self.function is not None
        batches: list[np.ndarray] = []
        for start in trange(0, len(sentences), self.batch_size, disable=not progress, desc="Batches"):
            batch = sentences[start : start + self.batch_size]
            try:
                rows = self.function(batch)
                array = rows.detach().cpu().numpy() if isinstance(rows, torch.Tensor) else np.asarray(rows)
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
        norms = vectors.norm(dim=1)
        for bad, what in ((~torch.isfinite(norms), "NaN or infinite"), (norms == 0, "zero")):
            if bool(bad.any()):
                sentence = sentences[int(bad.nonzero()[0])]
                raise InputError(
                    f"encoder {self.name!r} returned a {what} vector for {shorten(sentence)!r} "
                    f"({int(bad.sum())} of {len(sentences)} sentences): leave such out, or mend the encoder"
                )


def load_sentence_transformer(name: str, *, revision: str | None, device: str | None) -> SentenceTransformer:
    """Load a SentenceTransformer from a folder or the hub: safetensors only, no code from the repository.

    :raises InputError: If there is none.
    """
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer

    if (
        Path(name).exists()
        and not Path(name, "config.json").exists()
        and not Path(name, "modules.json").exists()
    ):
        raise InputError(
            f"{name} is no encoder: a SentenceTransformer folder has a modules.json or config.json"
        )
    try:
        return SentenceTransformer(
            name, revision=revision, device=device, model_kwargs={"use_safetensors": True}
        )
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        where = (
            "the folder is damaged or not an encoder"
            if Path(name).exists()
            else "no such folder, nor on the hub"
        )
        raise InputError(f"cannot load encoder {name!r} ({where}): {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def shorten(text: str, width: int = 60) -> str:
    """Return a text cut to a width, with an ellipsis where it was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def _model_name(model: Any) -> str:
    card = getattr(model, "model_card_data", None)
    return getattr(card, "base_model", None) or getattr(card, "model_id", None) or type(model).__name__
