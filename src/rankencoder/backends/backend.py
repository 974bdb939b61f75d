"""Which backend computes an encoder's vectors, and how near they are to those of torch in float32."""

from __future__ import annotations

import copy
import importlib.util
import logging
import shutil
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from filelock import FileLock

from rankencoder.backends.conversion import FILES, write_graph
from rankencoder.backends.runtimes import OPEN
from rankencoder.backends.sample_text import sample_sentences
from rankencoder.batching import encode_by_length, is_plain, is_static
from rankencoder.errors import BackendWarning, InputError, MissingExtraError
from rankencoder.fingerprints import model_digest
from rankencoder.forms.fidelity import Fidelity, measure
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.storage import cache_root, new_file, new_folder, read_json, write_json

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from rankencoder.backends.runtimes import Run

BACKENDS = ("auto", "torch", "openvino", "onnx")
PRECISIONS = ("fp32", "bf16", "int8")
FAITHFUL = 0.999  # what `auto` asks for
DOUBTFUL = 0.99
_FASTEST = (
    *(("openvino", "int8"), ("onnx", "int8")),
    *(("openvino", "bf16"), ("torch", "bf16"), ("openvino", "fp32"), ("onnx", "fp32"), ("torch", "fp32")),
)
"""Backends in the order of their speed, as benchmarks/results have it."""
_PACKAGES = {"torch": "torch", "openvino": "openvino", "onnx": "onnxruntime"}
_BATCH = 32
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backend:
    """What computes vectors, and in which precision.

    :param fidelity: Spearman's correlation of its similarities with those of torch in float32, over all pairs
        of a sample of 1,000 sentences.
    """

    name: str = "torch"
    precision: str = "fp32"
    fidelity: float = 1.0

    def __str__(self) -> str:
        return f"{self.name} {self.precision} (fidelity {self.fidelity:.5f})"

    @property
    def is_reference(self) -> bool:
        """Whether this is what the others are compared with."""
        return (self.name, self.precision) == ("torch", "fp32")

    @property
    def is_usable(self) -> bool:
        """Whether it is installed, and this processor computes in its precision."""
        return importlib.util.find_spec(_PACKAGES[self.name]) is not None and (
            self.precision != "bf16" or has_bfloat16()
        )


class Accelerated:
    """A SentenceTransformer whose vectors another backend computes; its tokens are found as ever.

    The converted model is kept in the cache under the digest of the model, with the fidelity.
    """

    def __init__(self, model: SentenceTransformer, backend: Backend) -> None:
        self.model = model
        threads = torch.get_num_threads()
        folder = cache_root("backends", model_digest(model)[:16])
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):  # of several processes, one converts
            if backend.name == "torch":
                self.workers, self.run = 1, _bfloat16(model)
            else:
                graph = _find_graph(model, backend, folder)
                self.workers, self.run = threads, OPEN[backend.name](graph, backend.precision, threads)
            self.backend = replace(backend, fidelity=self._fidelity(backend, folder))

    def __call__(
        self, sentences: list[str], batch_size: int, *, progress: bool = False
    ) -> torch.Tensor | None:
        """Return the vectors of sentences, as `encode_by_length` does."""
        return encode_by_length(
            self.model, sentences, batch_size, progress=progress, run=self.run, workers=self.workers
        )

    def _fidelity(self, backend: Backend, folder: Path) -> float:
        """Return the stored fidelity, or measure it: once for each version and kind of processor."""
        package = _PACKAGES[backend.name]
        about = {"version": version(package), "bfloat16": has_bfloat16()}
        path = folder / f"{backend.name}-{backend.precision}.json"
        try:
            stored = read_json(path)
            if stored["about"] == about:
                return float(stored["spearman"])
        except (InputError, KeyError, TypeError, ValueError):
            pass
        found = compare(self.model, partial(self, batch_size=_BATCH))
        with new_file(path) as new:
            write_json(new, {"about": about, **asdict(found)})
        return found.spearman


def compare(model: SentenceTransformer, encode: Callable[[list[str]], torch.Tensor | None]) -> Fidelity:
    """Return how the similarities of other vectors agree with a model's own, over pairs of a sample."""
    sample = sample_sentences()
    exact, ours = (
        torch.nn.functional.normalize(rows.float(), dim=1).clone()  # out of inference mode
        for rows in (encode_by_length(model, sample, _BATCH), encode(sample))
        if rows is not None
    )
    return measure(ours @ ours.T, exact @ exact.T)


def accelerate(model: SentenceTransformer, backend: str, precision: str | None) -> Accelerated | None:
    """Return a model on a backend; None where torch in float32 is to compute it.

    A static model stays with torch: there is nothing to convert.

    :param backend: One of `BACKENDS`. "auto" takes the fastest as a rule that is installed and whose fidelity
        is at least 0.999.
    :param precision: One of `PRECISIONS`; by default float32, with "auto" whatever is fastest.
    """
    check_backend(backend, precision)
    if is_static(model) or (backend == "torch" and precision in (None, "fp32")):
        return None
    if not is_plain(model):
        if backend != "auto":
            warnings.warn(
                f"this model does not run on {backend}: torch computes it", BackendWarning, stacklevel=3
            )
        return None
    if backend == "auto":
        return _fastest(model, precision)
    if backend != "torch" and model.device.type != "cpu":
        raise InputError(f"{backend} runs on the CPU: set `device` to cpu")
    if precision == "bf16" and not has_bfloat16() and model.device.type == "cpu":
        warnings.warn("this CPU has no bfloat16: float32 is used", BackendWarning, stacklevel=3)
        return accelerate(model, backend, "fp32")
    return _faithful(Accelerated(model, Backend(backend, precision or "fp32")))


def _fastest(model: SentenceTransformer, precision: str | None) -> Accelerated | None:
    """Return a model on the fastest backend that will do, and say which."""
    candidates = [
        Backend(*one) for one in _FASTEST if one[1] == precision or (not precision and one[1] != "int8")
    ]
    made = None
    for backend in candidates if model.device.type == "cpu" else ():
        if backend.is_reference:
            break
        if not backend.is_usable:
            continue
        try:
            made = Accelerated(model, backend)
        except InputError as error:  # this one cannot be converted
            LOG.debug("%s", error)
            continue
        if precision is not None or made.backend.fidelity >= FAITHFUL:
            break
        made = None
    LOG.info("backend: %s", made.backend if made else Backend())
    return made and _faithful(made)


def _faithful(made: Accelerated) -> Accelerated:
    """Return what was made, with a warning if its similarities are others."""
    if made.backend.fidelity < DOUBTFUL:
        message = f"similarities by {made.backend} differ from those in float32: take another precision"
        warnings.warn(message, BackendWarning, stacklevel=4)
    return made


def _find_graph(model: SentenceTransformer, backend: Backend, folder: Path) -> Path:
    """Return the converted model of the cache, converting it if it is not there or damaged."""
    int8 = backend.precision == "int8"
    place = folder / (backend.name + "-int8" * int8)
    try:
        if not check_manifest(place):
            raise InputError("not there")
    except InputError:
        LOG.info("converting the model for %s %s, once", backend.name, backend.precision)
        shutil.rmtree(place, ignore_errors=True)
        with new_folder(place) as new:
            write_graph(model, backend.name, new, int8=int8)
            write_manifest(new)
    return place / FILES[backend.name]


def _bfloat16(model: SentenceTransformer) -> Run:
    """Return what runs a model in bfloat16 with torch."""
    half = copy.deepcopy(model).to(torch.bfloat16)

    def run(batch: dict[str, Any]) -> torch.Tensor:
        vectors: torch.Tensor = half(batch)["sentence_embedding"]
        return vectors.float()[:, : model.truncate_dim]

    return run


def has_bfloat16() -> bool:
    """Say whether this CPU computes in bfloat16 rather than pretend to."""
    if not hasattr(torch.cpu, "get_capabilities"):
        return bool(torch.cpu._is_avx512_bf16_supported())
    found = torch.cpu.get_capabilities()
    return any(found.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def check_backend(backend: str, precision: str | None) -> None:
    """Check that there is such a backend, that it is installed, and that it knows the precision."""
    if backend not in BACKENDS:
        raise InputError(f"unknown backend {backend!r}: use {', '.join(BACKENDS)}")
    if precision is not None and precision not in PRECISIONS:
        raise InputError(f"unknown precision {precision!r}: use {', '.join(PRECISIONS)}")
    if backend != "auto" and precision is not None and (backend, precision) not in _FASTEST:
        able = " or ".join(name for name, one in _FASTEST if one == precision)
        raise InputError(f"{backend} does not compute in {precision}: {able} does")
    if backend in OPEN and importlib.util.find_spec(_PACKAGES[backend]) is None:
        raise MissingExtraError(f"the backend {backend} is not installed", backend)
