"""Convert a SentenceTransformer to one graph from tokens to vectors, and run it without torch."""

from __future__ import annotations

import copy
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rankencoder.errors import InputError, MissingExtraError, first_line

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

INPUTS = ("input_ids", "attention_mask")
OUTPUT = "sentence_embedding"
FILES = {"openvino": "model.xml", "onnx": "model.onnx"}
Run = Callable[[dict[str, Any]], torch.Tensor]
_CALIBRATION = 128  # sentences to measure the ranges of activations on
_OPSET = 17


class _Whole(torch.nn.Module):
    """All modules of a SentenceTransformer, including pooling, as a function of two tensors."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).float().cpu().eval()
        self.size = model.truncate_dim
        found = model.preprocess(["two", "words of different length"])
        self.example = tuple(found[name].cpu() for name in INPUTS)
        self.has_types = "token_type_ids" in found
        self.others = {name: value for name, value in found.items() if not isinstance(value, torch.Tensor)}

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        features = {**self.others, "input_ids": input_ids, "attention_mask": attention_mask}
        if self.has_types:
            features["token_type_ids"] = torch.zeros_like(input_ids)
        vectors: torch.Tensor = self.model(features)[OUTPUT]
        return vectors if self.size is None else vectors[:, : self.size]


def write_graph(model: SentenceTransformer, format: str, folder: Path, *, int8: bool = False) -> Path:
    """Convert a model to a graph in a folder, and return its file.

    :param int8: Quantize weights and activations to 8 bits.
    :raises InputError: If the model cannot be converted.
    """
    path = folder / FILES[format]
    write = _write_openvino if format == "openvino" else _write_onnx
    try:
        with _quiet(), torch.no_grad():
            write(model, path, int8)
    except ImportError as error:
        raise MissingExtraError(f"{format}{' in int8' * int8} needs {error.name}", format) from error
    except Exception as error:  # converters raise anything for an unknown model
        raise InputError(f"this model cannot be converted to {format}: {first_line(error)}") from error
    return path


def _write_openvino(model: SentenceTransformer, path: Path, int8: bool) -> None:
    openvino = _import_openvino()
    whole = _Whole(model)
    free = openvino.PartialShape([-1, -1])
    made = openvino.convert_model(
        whole, example_input=whole.example, input=[(free, openvino.Type.i64)] * len(INPUTS)
    )
    for given, name in zip(made.inputs, INPUTS, strict=True):
        given.get_tensor().set_names({name})
    made.outputs[0].get_tensor().set_names({OUTPUT})
    if int8:
        import nncf

        found = (model.preprocess([sentence]) for sentence in manual_sentences(_CALIBRATION))
        data = [{name: features[name].cpu().numpy() for name in INPUTS} for features in found]
        kind = nncf.ModelType.TRANSFORMER
        made = nncf.quantize(made, nncf.Dataset(data), model_type=kind, subset_size=_CALIBRATION)
    openvino.save_model(made, path, compress_to_fp16=False)


def _write_onnx(model: SentenceTransformer, path: Path, int8: bool) -> None:
    import onnx  # noqa: F401  (the exporter and the quantizer need it)

    whole = _Whole(model)
    axes = {0: "sentences", 1: "tokens"}
    torch.onnx.export(
        whole,
        whole.example,
        str(path),
        input_names=list(INPUTS),
        output_names=[OUTPUT],
        dynamic_axes={**dict.fromkeys(INPUTS, axes), OUTPUT: {0: "sentences"}},
        opset_version=_OPSET,
        dynamo=False,  # the new exporter needs another package, and freezes shapes that depend on tokens
    )
    if int8:
        from onnxruntime.quantization import quantize_dynamic

        quantize_dynamic(path, path, per_channel=True, op_types_to_quantize=["MatMul"])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the converters."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _import_openvino() -> Any:
    """Import OpenVINO without its telemetry, which forks a process and sends usage data at each import."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # OpenVINO and NNCF do without
    import openvino

    return openvino


@cache
def _openvino_core() -> Any:
    """Return the OpenVINO runtime of this process.

    There is only one, and it is never closed: closing two out of order frees the stack of signal handlers, so
    that Ctrl-C crashes.
    """
    return _import_openvino().Core()


def open_openvino(graph: Path, precision: str, threads: int) -> Run:
    """Return a thread-safe function that runs a graph with OpenVINO, each call on one thread."""
    hint = "bf16" if precision == "bf16" else "f32"
    settings = {"INFERENCE_PRECISION_HINT": hint, "NUM_STREAMS": threads, "INFERENCE_NUM_THREADS": threads}
    compiled = _openvino_core().compile_model(graph, "CPU", settings)
    own = threading.local()

    def run(batch: dict[str, Any]) -> torch.Tensor:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        found = own.request.infer({name: batch[name].numpy() for name in INPUTS}, share_inputs=True)
        return torch.from_numpy(found[OUTPUT])

    return run


def open_onnx(graph: Path, precision: str, threads: int) -> Run:
    """Return a thread-safe function that runs a graph with ONNX Runtime, each call on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])

    def run(batch: dict[str, Any]) -> torch.Tensor:
        return torch.from_numpy(session.run([OUTPUT], {name: batch[name].numpy() for name in INPUTS})[0])

    return run


OPEN = {"openvino": open_openvino, "onnx": open_onnx}


def manual_sentences(number: int = 1000) -> list[str]:
    """Return distinct sentences of 5 to 30 words from Python's manual, which is always installed."""
    from pydoc_data.topics import topics

    text = re.sub(r"[*`_|^=+-]{2,}|\s+", " ", " ".join(topics[name] for name in sorted(topics)))
    found = dict.fromkeys(part for part in re.split(r"(?<=[.:;]) ", text) if 4 <= part.count(" ") < 30)
    return list(found)[:: max(1, len(found) // number)][:number]
