"""``rankencoder export`` and ``rankencoder push``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankencoder.cli.console import prepare, print_json, say
from rankencoder.cli.options import AnyModel, Json, Output, Overwrite


def export(
    model: AnyModel,
    output: Output,
    format: Annotated[str, typer.Option(help="openvino or onnx.")] = "onnx",
    precision: Annotated[str, typer.Option(help="fp32 or int8.")] = "fp32",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Export a model to ONNX or OpenVINO, with its tokenizer.

    The graph maps tokens to unit vectors, and runs without torch or this package. A RankEncoder needs the
    linear form.

    Examples:
    - `rankencoder export my-encoder --format onnx -o exported`
    - `rankencoder export my-encoder --format openvino --precision int8 -o exported`

    """
    from rankencoder.io.storage import check_free

    check_free(output, overwrite=overwrite)
    prepare(model)
    from rankencoder.backends.portable import export_model
    from rankencoder.model import open_model

    opened = open_model(model, device="cpu")
    about = export_model(opened, output, format, precision=precision, overwrite=overwrite)
    if as_json:
        print_json(about)
    else:
        fidelity = about["fidelity"]["spearman"]
        say(f"{output}: {format} {precision}, {about['dimension']:,} dimensions, fidelity {fidelity:.5f}")


def push(
    folder: Annotated[Path, typer.Argument(help="RankEncoder, encoder, reference corpus or training run.")],
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository; created if missing.")],
    private: Annotated[bool, typer.Option("--private/--public", help="Who can see a new repository.")] = True,
) -> None:
    """Upload a model to the Hugging Face hub, to load it anywhere by name.

    Uploads a RankEncoder with its reference sentences. Log in with `hf auth login`, or set HF_TOKEN.

    Examples:
    - `rankencoder push my-encoder me/my-encoder`

    """
    from rankencoder.encoder_sources import push_folder

    say(push_folder(folder, name, private=private))
