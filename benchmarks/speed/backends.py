"""Backends on a CPU against ``SentenceTransformer.encode``, fastembed and model2vec, all in one run.

Each encodes the same sentences with the same weights by its own documented call. Rates of peers and ours are
of rounds in turn. What ranks add to an encoder is timed by itself, as a difference of two long times would be
mostly noise. Fidelity is Spearman's correlation of similarities with those of torch in float32.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from rankencoder import RankEncoder
from rankencoder.backends.model_graph import FILES, write_graph
from rankencoder.encoders import Encoder
from speed.models import load, model_folder, reference, texts
from speed.timing import interleaved, ratio

PEER = "SentenceTransformer.encode"
OURS = ("torch", "torch:bf16", "openvino", "openvino:bf16", "openvino:int8", "onnx", "onnx:int8")
REFERENCES = (1_000, 3_000, 10_000)
_IMPORT = "python -c 'import sentence_transformers'"
_PEER_MODEL = "benchmark/all-MiniLM-L6-v2"
_VOCABULARY, _DIMENSION = 29_528, 256  # of potion-base-8M

Works = dict[str, Callable[[], Any]]


def measure(device: str, *, quick: bool) -> list[dict[str, Any]] | None:
    """Time transformers, static models and the start of a command; None on a GPU."""
    if device != "cpu":
        return None
    rounds = 2 if quick else 5
    return [
        _transformer(128 if quick else 1_200, rounds),
        _static(2_000 if quick else 50_000, rounds),
        _startup(rounds),
    ]


def _rows(works: Works, peer: str, rounds: int, number: int) -> dict[str, dict[str, Any]]:
    times = interleaved(works, rounds=rounds)
    return {
        name: {
            "seconds": statistics.median(found),
            "sentences_per_second": number / statistics.median(found),
            "ratio": ratio(times[peer], found),
        }
        for name, found in times.items()
    }


def _transformer(number: int, rounds: int) -> dict[str, Any]:
    data, sentences = texts(number)
    model, half = load("22M", "cpu"), load("22M", "cpu").to(torch.bfloat16)
    works: Works = {
        PEER: lambda: model.encode(sentences, convert_to_tensor=True),
        f"{PEER}, bfloat16": lambda: half.encode(sentences, convert_to_tensor=True),
    }
    skipped = {}
    encoders: dict[str, Encoder] = {}
    for name in OURS:
        try:
            encoders[name] = Encoder(model, backend=name)
        except Exception as error:  # not installed, or not converted
            skipped[name] = str(error)
            continue
        works[f"ours, {name}"] = partial(encoders[name], sentences)
    ranked = _ranked(encoders, sentences)
    works |= {name: partial(model.encode, sentences) for name, model in ranked.items()}
    vectors = {name: model.encoder(sentences) for name, model in ranked.items()}
    parts = {name: partial(model.blend, vectors[name]) for name, model in ranked.items()}
    with tempfile.TemporaryDirectory() as folder:
        try:
            works["fastembed"] = partial(_fastembed(model, folder), sentences)
        except ImportError:
            skipped["fastembed"] = "not installed"
    rows = _rows(works, PEER, rounds, number)
    for name, part in parts.items():
        taken = interleaved({name: part}, rounds=rounds)[name]
        encoder = rows["ours, " + name.split(", ")[1]]["seconds"]
        rows[name]["overhead"] = statistics.median(taken) / encoder
    exact = torch.nn.functional.normalize(works[PEER]().float(), dim=1)[:1000].cpu().numpy()
    for name in works:
        if name == PEER or name.startswith("RankEncoder"):
            continue
        found = torch.nn.functional.normalize(works[name]().float(), dim=1)[:1000].cpu().numpy()
        rows[name]["fidelity"] = _agreement(exact, found)
    about = f"{model_folder('22M')[0]}, {number:,} {data}"
    return {"what": about, "peer": PEER, "rows": rows, "skipped": skipped}


def _ranked(encoders: dict[str, Encoder], sentences: list[str]) -> dict[str, RankEncoder]:
    """Return RankEncoders in the compact form, for numbers of reference sentences."""
    return {
        f"RankEncoder, {name}, n = {n:,}": RankEncoder(
            encoders[name], reference(encoders[name], sentences, n), progress=False
        )
        for name in ("torch", "openvino:bf16")
        if name in encoders
        for n in REFERENCES
    }


def _agreement(exact: np.ndarray, found: np.ndarray) -> float:
    pairs = np.triu_indices(len(exact), 1)
    return float(spearmanr((exact @ exact.T)[pairs], (found @ found.T)[pairs]).statistic)


def _fastembed(model: SentenceTransformer, folder: str) -> Callable[[list[str]], torch.Tensor]:
    """Return what encodes with fastembed, reading our graph: its own is on the hub alone."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    write_graph(model, "onnx", Path(folder))
    model.tokenizer.save_pretrained(folder)
    settings = json.loads(Path(folder, "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["model_max_length"] = model.max_seq_length
    Path(folder, "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    shutil.copy(Path(model_folder("22M")[1], "config.json"), folder)
    TextEmbedding.add_custom_model(
        _PEER_MODEL,
        pooling=PoolingType.DISABLED,  # the graph pools
        normalization=True,
        sources=ModelSource(hf=_PEER_MODEL),
        dim=model.get_embedding_dimension(),
        model_file=FILES["onnx"],
    )
    peer = TextEmbedding(_PEER_MODEL, specific_model_path=folder)
    return lambda sentences: torch.tensor(np.stack(list(peer.embed(sentences))))


def _static(number: int, rounds: int) -> dict[str, Any]:
    """Time a static student of random numbers: what they are does not matter."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    data, sentences = texts(number)
    tokenizer = load("22M", "cpu").tokenizer.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.no_truncation()
    size = max(_VOCABULARY, tokenizer.get_vocab_size())
    vectors = np.random.default_rng(0).standard_normal((size, _DIMENSION), dtype=np.float32)
    static = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=vectors)], device="cpu"
    )
    encoder = Encoder(static)
    works: Works = {
        PEER: lambda: static.encode(sentences, convert_to_tensor=True),
        "ours, static": lambda: encoder(sentences),
    }
    skipped = {}
    if importlib.util.find_spec("model2vec"):
        from model2vec import StaticModel

        peer = StaticModel(vectors, tokenizer)
        works["model2vec"] = partial(_model2vec, peer, sentences)
    else:
        skipped["model2vec"] = "not installed"
    found = _rows(works, "model2vec" if "model2vec" in works else PEER, rounds, number)
    name = "model2vec" if "model2vec" in works else PEER
    return {"what": f"a static model, {number:,} {data}", "peer": name, "rows": found, "skipped": skipped}


def _model2vec(peer: Any, sentences: list[str]) -> None:
    peer.encode(sentences)
    os.environ.pop("TOKENIZERS_PARALLELISM", None)  # it sets this for the process, and so for its rivals


def _startup(rounds: int) -> dict[str, Any]:
    """Time commands from start to end, beside the import that most programs begin with.

    The first round, which does not count, writes bytecode, as pip does when it installs. Without it each
    start would compile 4,000 modules.
    """
    folder = model_folder("22M")[1]
    program = [sys.executable, "-m", "rankencoder"]
    commands = {
        _IMPORT: [sys.executable, "-c", "import sentence_transformers"],
        "rankencoder --help": [*program, "--help"],
        "rankencoder similarity": [
            *program,
            "similarity",
            folder,
            "A man plays guitar.",
            "Someone makes music.",
        ],
    }
    with tempfile.TemporaryDirectory() as empty:
        python = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        python["PYTHONPYCACHEPREFIX"] = empty
        works: Works = {
            name: partial(subprocess.run, command, check=True, capture_output=True, cwd=empty, env=python)
            for name, command in commands.items()
        }
        rows = _rows(works, _IMPORT, rounds, 1)
    return {"what": "start", "peer": _IMPORT, "rows": rows, "skipped": {}}
