"""Graphs that run: functions from the tokens of a batch to its vectors, for several threads at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rankencoder.backends.conversion import INPUTS, OUTPUT

Run = Callable[[dict[str, Any]], torch.Tensor]


def open_openvino(graph: Path, precision: str, threads: int) -> Run:
    """Return what runs a graph with OpenVINO, each call on one thread."""
    import openvino

    hint = "bf16" if precision == "bf16" else "f32"
    settings = {"INFERENCE_PRECISION_HINT": hint, "NUM_STREAMS": threads, "INFERENCE_NUM_THREADS": threads}
    compiled = openvino.Core().compile_model(graph, "CPU", settings)
    own = threading.local()

    def run(batch: dict[str, Any]) -> torch.Tensor:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        found = own.request.infer({name: batch[name].numpy() for name in INPUTS}, share_inputs=True)
        return torch.from_numpy(found[OUTPUT])

    return run


def open_onnx(graph: Path, precision: str, threads: int) -> Run:
    """Return what runs a graph with ONNX Runtime, each call on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])

    def run(batch: dict[str, Any]) -> torch.Tensor:
        return torch.from_numpy(session.run([OUTPUT], {name: batch[name].numpy() for name in INPUTS})[0])

    return run


OPEN = {"openvino": open_openvino, "onnx": open_onnx}
