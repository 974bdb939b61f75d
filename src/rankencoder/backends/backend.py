"""Choose the backend of an encoder, and measure its fidelity to torch in float32."""

from __future__ import annotations

import copy
import importlib.util
import logging
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from filelock import FileLock

from rankencoder.backends.model_graph import FILES, OPEN, Run, manual_sentences, write_graph
from rankencoder.batching import encode_by_length, is_plain, is_static
from rankencoder.errors import BackendWarning, InputError, MissingExtraError
from rankencoder.fingerprints import model_digest
from rankencoder.forms.fidelity import Fidelity, measure
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.storage import cache_root, new_file, new_folder, read_json, write_json

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BACKENDS = ("auto", "torch", "openvino", "onnx")
PRECISIONS = ("fp32", "bf16", "int8")
FAITHFUL = 0.999  # lowest fidelity for `auto`
DOUBTFUL = 0.99  # a lower fidelity causes a warning
_FASTEST = (
    *(("openvino", "int8"), ("onnx", "int8")),
    *(("openvino", "bf16"), ("torch", "bf16"), ("openvino", "fp32"), ("onnx", "fp32"), ("torch", "fp32")),
)
"""Backends from the fastest to the slowest, by the benchmarks in `results/`."""
_PACKAGES = {"torch": "torch", "openvino": "openvino", "onnx": "onnxruntime"}
_BATCH = 32
Encode = Callable[..., torch.Tensor | None]
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backend:
    """A runtime and its precision.

    :param fidelity: Spearman's correlation of its similarities with those of torch in float32, over all pairs
        of 1,000 sentences.
    """

    name: str = "torch"
    precision: str = "fp32"
    fidelity: float = 1.0

    def __str__(self) -> str:
        return f"{self.name} {self.precision} (fidelity {self.fidelity:.5f})"

    @property
    def is_reference(self) -> bool:
        """Whether this is torch in float32, the baseline for fidelity."""
        return (self.name, self.precision) == ("torch", "fp32")

    @property
    def is_usable(self) -> bool:
        """Whether it is installed, and this CPU supports its precision."""
        return _is_installed(self.name) and (self.precision != "bf16" or has_bfloat16())


class Accelerated(NamedTuple):
    """A backend, and a function that encodes with it like `encode_by_length` with a model."""

    backend: Backend
    encode: Encode


def _accelerated(model: SentenceTransformer, backend: Backend) -> Accelerated:
    """Convert a model for a backend and measure its fidelity; both are cached by the model's digest."""
    threads = torch.get_num_threads()
    folder = cache_root("backends", model_digest(model)[:16])
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):  # only one process converts
        if backend.name == "torch":
            workers, run = 1, _bfloat16(model)
        else:
            graph = _find_graph(model, backend, folder)
            workers, run = threads, OPEN[backend.name](graph, backend.precision, threads)
        encode = partial(encode_by_length, model, run=run, workers=workers)
        return Accelerated(replace(backend, fidelity=_fidelity(model, backend, encode, folder)), encode)


def _fidelity(model: SentenceTransformer, backend: Backend, encode: Encode, folder: Path) -> float:
    """Return the stored fidelity, or measure it, once per version and kind of CPU."""
    about = {"version": version(_PACKAGES[backend.name]), "bfloat16": has_bfloat16()}
    path = folder / f"{backend.name}-{backend.precision}.json"
    with suppress(InputError, KeyError, TypeError, ValueError):  # missing or damaged
        stored = read_json(path)
        if stored["about"] == about:
            return float(stored["spearman"])
    found = compare(model, partial(encode, batch_size=_BATCH))
    with new_file(path) as new:
        write_json(new, {"about": about, **asdict(found)})
    return found.spearman


def compare(model: SentenceTransformer, encode: Callable[[list[str]], torch.Tensor | None]) -> Fidelity:
    """Correlate a model's similarities with those of another encode function, over pairs of a sample."""
    sample = manual_sentences()
    exact, ours = (
        torch.nn.functional.normalize(rows.float(), dim=1).clone()  # out of inference mode
        for rows in (encode_by_length(model, sample, _BATCH), encode(sample))
        if rows is not None
    )
    return measure(ours @ ours.T, exact @ exact.T)


def accelerate(model: SentenceTransformer, backend: str, precision: str | None) -> Accelerated | None:
    """Return a model on a backend, or None for torch in float32.

    A static model stays with torch, because there is nothing to convert.

    :param backend: One of `BACKENDS`. "auto" is the fastest installed one with a fidelity of at least 0.999.
    :param precision: One of `PRECISIONS`; by default float32, or for "auto" the fastest faithful one.
    """
    check_backend(backend, precision)
    if is_static(model) or (backend == "torch" and precision in (None, "fp32")):
        return None
    if not is_plain(model):
        if backend != "auto":
            warnings.warn(f"this model does not run on {backend}: using torch", BackendWarning, stacklevel=3)
        return None
    if backend != "auto":
        if backend != "torch" and model.device.type != "cpu":
            raise InputError(f"{backend} runs on the CPU: set `device` to cpu")
        if precision == "bf16" and not has_bfloat16() and model.device.type == "cpu":
            warnings.warn("this CPU has no bfloat16: using float32", BackendWarning, stacklevel=3)
            return accelerate(model, backend, "fp32")
        made: Accelerated | None = _accelerated(model, Backend(backend, precision or "fp32"))
    else:
        made = _fastest(model, precision) if model.device.type == "cpu" else None
        LOG.info("backend: %s", made.backend if made else Backend())
    if made is not None and made.backend.fidelity < DOUBTFUL:
        message = f"similarities by {made.backend} differ from those in float32: choose another precision"
        warnings.warn(message, BackendWarning, stacklevel=3)
    return made


def _fastest(model: SentenceTransformer, precision: str | None) -> Accelerated | None:
    """Return a model on the fastest usable and faithful backend, or None for torch in float32."""
    for name, level in _FASTEST:
        backend = Backend(name, level)
        is_wanted = level == precision if precision else level != "int8"
        if not is_wanted or backend.is_reference or not backend.is_usable:
            continue
        try:
            made = _accelerated(model, backend)
        except InputError as error:  # it cannot be converted
            LOG.debug("%s", error)
            continue
        if precision or made.backend.fidelity >= FAITHFUL:
            return made
    return None


def _find_graph(model: SentenceTransformer, backend: Backend, folder: Path) -> Path:
    """Return the converted model in the cache; convert it if it is missing or damaged."""
    int8 = backend.precision == "int8"
    place = folder / (backend.name + "-int8" * int8)
    graph = place / FILES[backend.name]
    with suppress(InputError):  # damaged
        if check_manifest(place):
            return graph
    LOG.info("converting the model for %s %s, once", backend.name, backend.precision)
    shutil.rmtree(place, ignore_errors=True)
    with new_folder(place) as new:
        write_graph(model, backend.name, new, int8=int8)
        write_manifest(new)
    return graph


def _bfloat16(model: SentenceTransformer) -> Run:
    """Return a function that runs a model in bfloat16 with torch."""
    half = copy.deepcopy(model).to(torch.bfloat16)

    def run(batch: dict[str, Any]) -> torch.Tensor:
        vectors: torch.Tensor = half(batch)["sentence_embedding"]
        return vectors.float()[:, : model.truncate_dim]

    return run


def has_bfloat16() -> bool:
    """Return whether this CPU computes in bfloat16 natively."""
    if not hasattr(torch.cpu, "get_capabilities"):
        return bool(torch.cpu._is_avx512_bf16_supported())
    found = torch.cpu.get_capabilities()
    return any(found.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def check_backend(backend: str, precision: str | None) -> None:
    """Check that a backend exists, is installed, and supports the precision."""
    if backend not in BACKENDS:
        raise InputError(f"unknown backend {backend!r}: use {', '.join(BACKENDS)}")
    if precision is not None and precision not in PRECISIONS:
        raise InputError(f"unknown precision {precision!r}: use {', '.join(PRECISIONS)}")
    if backend != "auto" and precision is not None and (backend, precision) not in _FASTEST:
        able = " or ".join(name for name, one in _FASTEST if one == precision)
        raise InputError(f"{backend} does not compute in {precision}: {able} does")
    if backend in OPEN and not _is_installed(backend):
        raise MissingExtraError(f"the backend {backend} is not installed", backend)


def _is_installed(backend: str) -> bool:
    return importlib.util.find_spec(_PACKAGES[backend]) is not None
