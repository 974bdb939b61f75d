"""Export a model for other runtimes: a graph from tokens to unit vectors, and its tokenizer."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize

from rankencoder._version import __version__
from rankencoder.backends.backend import DOUBTFUL, check_backend, compare
from rankencoder.backends.model_graph import FILES, INPUTS, OPEN, OUTPUT, write_graph
from rankencoder.batching import is_plain
from rankencoder.encoders import Encoder
from rankencoder.errors import BackendWarning, InputError
from rankencoder.fused_encoder import FusedEncoder
from rankencoder.io.storage import new_folder, write_json
from rankencoder.model import RankEncoder
from rankencoder.modules import export_encoder

_TOKENIZER = "tokenizer.json"
_ABOUT = "rankencoder-export.json"
_BATCH = 32


def export_model(
    model: RankEncoder | Encoder,
    folder: str | Path,
    format: str,
    *,
    precision: str = "fp32",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write graph, tokenizer and description of a model to a folder, for use without torch and this package.

    The graph maps ``input_ids`` and ``attention_mask`` to unit vectors; the tokenizer truncates and pads.

    :param model: An encoder, or a RankEncoder in the linear form; other forms need the reference corpus.
    :param format: "openvino" or "onnx".
    :param precision: "fp32" or "int8"; bfloat16 is chosen when a graph is loaded.
    :return: The description, with the fidelity of its similarities to the model's.
    """
    if format not in FILES or precision not in ("fp32", "int8"):
        raise InputError(f"cannot export to {format} in {precision}: use {' or '.join(FILES)}, fp32 or int8")
    check_backend(format, precision)
    whole = _sentence_transformer(model)
    prompt = whole.prompts.get(whole.default_prompt_name or "") or ""
    with new_folder(folder, overwrite=overwrite) as new:
        graph = write_graph(whole, format, new, int8=precision == "int8")
        tokenizer = _tokenizer(whole)
        tokenizer.save(str(new / _TOKENIZER))
        run = OPEN[format](graph, "fp32", torch.get_num_threads())

        def encode(sentences: list[str]) -> torch.Tensor:
            made = []
            for start in range(0, len(sentences), _BATCH):
                rows = tokenizer.encode_batch(sentences[start : start + _BATCH])
                columns = ([row.ids for row in rows], [row.attention_mask for row in rows])
                made.append(run({name: torch.tensor(c) for name, c in zip(INPUTS, columns, strict=True)}))
            return torch.cat(made)

        fidelity = compare(whole, encode)
        about = {
            "version": __version__,
            "model": model.name,
            "format": format,
            "precision": precision,
            "graph": graph.name,
            "tokenizer": _TOKENIZER,
            "inputs": list(INPUTS),
            "output": OUTPUT,
            "prompt": prompt,
            "dimension": whole.get_embedding_dimension(),
            "max_tokens": whole.max_seq_length,
            "fidelity": asdict(fidelity),
        }
        write_json(new / _ABOUT, about)
    if fidelity.spearman < DOUBTFUL:
        message = f"its similarities differ from the model's: {fidelity}; choose another precision"
        warnings.warn(message, BackendWarning, stacklevel=2)
    return about


def _sentence_transformer(model: RankEncoder | Encoder) -> SentenceTransformer:
    """Return a model as a SentenceTransformer that can be converted."""
    encoder = model.encoder if isinstance(model, RankEncoder) else model
    if isinstance(encoder, FusedEncoder):
        raise InputError(f"{model.name} has several tokenizers: export its encoders one by one")
    if encoder.model is None or not is_plain(encoder.model):
        raise InputError(f"{encoder.name} is not a transformer: only transformers can be converted")
    if isinstance(model, RankEncoder):
        if model.rank_weight > 0 and model.form.name != "linear":
            raise InputError(
                f"the {model.form.name} form ranks a reference corpus, which a graph cannot do: "
                "use the linear form"
            )
        return model.to_sentence_transformer()
    whole = export_encoder(encoder)
    whole.append(Normalize())
    return whole


def _tokenizer(model: SentenceTransformer) -> Any:
    """Return a copy of the tokenizer's Rust core that truncates and pads."""
    core = model.tokenizer.backend_tokenizer
    own = type(core).from_str(core.to_str())
    own.enable_truncation(model.max_seq_length or model.tokenizer.model_max_length)
    own.enable_padding(pad_id=model.tokenizer.pad_token_id, pad_token=model.tokenizer.pad_token)
    return own
