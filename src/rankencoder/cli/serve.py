"""``rankencoder serve`` and ``rankencoder explore``."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import prepare
from rankencoder.cli.options import OPENING, BatchSize, Host, Index, Port
from rankencoder.errors import InputError, MissingExtraError

LOG = logging.getLogger(__name__)
_NEEDED = ("fastapi", "uvicorn", "prometheus_client")
_KEY = "RANKENCODER_API_KEY"
_GRACE = 90  # seconds to wait for requests in flight on exit
_CPU_BATCH = 16  # larger batches gain nothing on a CPU: they outgrow its caches, with more padding


def serve(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="RankEncoders, training runs, encoders.")
    ],
    index: Index = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    names: Annotated[
        list[str] | None, typer.Option("--name", help="Name of a model, one for each. [default: its folder]")
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the API key, or set RANKENCODER_API_KEY.")
    ] = None,
    batch_size: BatchSize = 64,
    opening: Opening = OPENING,
) -> None:
    """Serve models over HTTP: OpenAI-compatible embeddings, similarity, explain, search.

    Batches concurrent requests. Requests choose between several models by name; the first is the default.
    Ctrl-C or SIGTERM finishes the requests in flight.

    Examples:
    - `rankencoder serve my-encoder --port 8000`
    - `rankencoder serve my-encoder --index my-index --api-key-file key.txt --host 0.0.0.0`
    - `rankencoder serve my-encoder another-encoder`

    """
    missing = [module for module in _NEEDED if importlib.util.find_spec(module) is None]
    if missing:
        raise MissingExtraError(f"serve needs {', '.join(missing)}", "serve")
    names = names or [Path(model).resolve().name if Path(model).exists() else model for model in models]
    if len(names) != len(models) or len(set(names)) < len(names):
        told = f"{len(models)} models, named {', '.join(names)}"
        raise InputError(f"{told}: give each its own name with `names`")
    key = _read_key(api_key_file)
    from rankencoder import web_process

    for model in models:
        prepare(model)
    listener = web_process.bind(host, port)  # before the models, which take a while to load
    from rankencoder.search.rank_index import RankIndex
    from rankencoder.server.server_app import create_app

    running: Opening = {**opening, "batch_size": batch_size}
    opened = {name: _open(model, running) for name, model in zip(names, models, strict=True)}
    searched = None
    for one in opened.values() if index else ():
        searched = RankIndex.load(index or "", one)
        with suppress(InputError):  # one that fits no model is rejected below
            _ = searched.model
            break
    app = create_app(opened, index=searched, api_key=key, batch_size=batch_size)
    if key is None and host not in web_process.LOOPBACK:
        LOG.warning("no API key set: anyone who can reach %s can use this server", host)
    for name, one in opened.items():
        LOG.info("%s: %d dimensions; description at /openapi.json", name, one.dimension)
    web_process.run(app, listener, grace=_GRACE)


def _read_key(file: Path | None) -> str | None:
    """Return the API key of a file or of the environment, or None."""
    text = os.environ.get(_KEY) if file is None else file.read_text("utf-8", errors="replace")
    if text is not None and not re.fullmatch("[!-~]+", text.strip()):
        raise InputError(f"{file or _KEY} holds no API key: it must be one word of printable ASCII")
    return None if text is None else text.strip()


def _open(model: str, opening: Opening) -> Any:
    from rankencoder.model import RankEncoder, open_model

    opened = open_model(model, **opening)
    if opened.device.type == "cpu":
        encoder = opened.encoder if isinstance(opened, RankEncoder) else opened
        encoder.batch_size = min(encoder.batch_size, _CPU_BATCH)
    return opened


def explore(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A RankEncoder or training run; with --index, any encoder. [default: the demo's encoder]"
        ),
    ] = None,
    index: Index = None,
    labels: Annotated[Path | None, typer.Option(help="Label pairs of the index into this .tsv file.")] = None,
    host: Host = "127.0.0.1",
    port: Port = 7860,
    opening: Opening = OPENING,
) -> None:
    """Explore a model in the browser: compare sentences, view maps, search, label.

    Without a model, first distills one on the docstrings of your Python, once. Press Ctrl-C to stop.

    Examples:
    - `rankencoder explore`
    - `rankencoder explore my-encoder`
    - `rankencoder explore my-encoder --index my-index --port 8080`
    - `rankencoder explore my-encoder --index my-index --labels labels.tsv`

    """
    from rankencoder import explorer

    prepare()
    if model is None:
        if index is not None:
            raise InputError("no model given: name the one that the index was made with")
        from rankencoder.demo.playground import make_playground

        folder, index = make_playground()
        model = str(folder)
    explorer.explore(model, index, labels=labels, host=host, port=port, **opening)
