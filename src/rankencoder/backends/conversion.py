"""A SentenceTransformer as one graph from tokens to vectors, which runs without torch."""

from __future__ import annotations

import copy
import logging
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rankencoder.backends.sample_text import sample_sentences
from rankencoder.errors import InputError, MissingExtraError, first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentence_transformers import SentenceTransformer

INPUTS = ("input_ids", "attention_mask")
OUTPUT = "sentence_embedding"
FILES = {"openvino": "model.xml", "onnx": "model.onnx"}
_CALIBRATED_ON = 128  # sentences that ranges of activations are taken from
_OPSET = 17


class _Whole(torch.nn.Module):
    """All modules of a SentenceTransformer, pooling included, as a function of two tensors."""

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
    """Write the graph of a model to a folder, and return its file.

    :param int8: Round weights and activations to 8 bits, activations by what sentences make of them.
    :raises InputError: If the model cannot be converted.
    """
    path = folder / FILES[format]
    write = _write_openvino if format == "openvino" else _write_onnx
    try:
        with _quiet(), torch.no_grad():
            write(model, path, int8)
    except ImportError as error:
        raise MissingExtraError(f"{format}{' in int8' * int8} needs {error.name}", format) from error
    except Exception as error:  # whatever converters raise at a model that they do not know
        raise InputError(f"this model cannot be converted to {format}: {first_line(error)}") from error
    return path


def _write_openvino(model: SentenceTransformer, path: Path, int8: bool) -> None:
    import openvino

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

        data, kind = nncf.Dataset(_calibration(model)), nncf.ModelType.TRANSFORMER
        made = nncf.quantize(made, data, model_type=kind, subset_size=_CALIBRATED_ON)
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
        dynamo=False,  # the new exporter needs one more package, and fixes shapes that depend on tokens
    )
    if int8:
        from onnxruntime.quantization import quantize_dynamic

        quantize_dynamic(path, path, per_channel=True, op_types_to_quantize=["MatMul"])


def _calibration(model: SentenceTransformer) -> list[dict[str, Any]]:
    """Return the tokens of some sentences, one by one."""
    found = (model.preprocess([sentence]) for sentence in sample_sentences(_CALIBRATED_ON))
    return [{name: features[name].cpu().numpy() for name in INPUTS} for features in found]


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what converters tell their authors."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
