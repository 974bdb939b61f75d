"""``rankencoder serve``."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Annotated

import typer

from rankencoder.cli.console import prepare, server_log
from rankencoder.cli.options import AnyModel, Device, Host, Index, Port
from rankencoder.errors import InputError
from rankencoder.server.server_settings import ServerSettings, read_key

LOG = logging.getLogger(__name__)
_NEEDED = ("fastapi", "uvicorn", "prometheus_client")
_GRACE = 30  # seconds more than a request may take that the end waits for requests in flight
_CPU_BATCH, _GPU_BATCH = 16, 64  # a CPU gains nothing from more: they outgrow its caches, and are padded more


def serve(
    model: AnyModel,
    index: Index = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    name: Annotated[str | None, typer.Option(help="What clients call the model (its folder's name).")] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the key that clients must send (or RANKENCODER_API_KEY).")
    ] = None,
    max_body_mb: Annotated[
        float, typer.Option(min=0.001, max=1000, help="Megabytes per request.")
    ] = ServerSettings.max_body_mb,
    timeout: Annotated[
        float, typer.Option(min=1, max=10**6, help="Seconds that a request may take.")
    ] = ServerSettings.timeout,
    batch_sentences: Annotated[
        int, typer.Option(min=1, max=10**6, help="Sentences encoded together.")
    ] = ServerSettings.batch_sentences,
    batch_wait_ms: Annotated[
        float, typer.Option(min=0, max=10**6, help="How long to wait for more of them.")
    ] = ServerSettings.batch_wait_ms,
    max_waiting: Annotated[
        int, typer.Option(min=4096, max=10**9, help="Sentences that may wait to be encoded.")
    ] = ServerSettings.max_waiting,
    device: Device = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, max=10**6, help="Sentences per call of the encoder (16 on a CPU, otherwise 64)."),
    ] = None,
) -> None:
    """Answer over HTTP: OpenAI-compatible embeddings, similarity, explain and search.

    Concurrent requests are encoded together. Ctrl-C or SIGTERM finishes what is in flight.

    Examples:
    - `rankencoder serve my-encoder --port 8000`

    - `rankencoder serve my-encoder --index my-index --api-key-file key.txt --host 0.0.0.0`

    """
    missing = [module for module in _NEEDED if importlib.util.find_spec(module) is None]
    if missing:
        raise InputError(f"serve needs {', '.join(missing)}: pip install 'rankencoder[serve]'")
    settings = ServerSettings(
        name=name or (Path(model).resolve().name if Path(model).exists() else model),
        max_body_mb=max_body_mb,
        timeout=timeout,
        batch_sentences=batch_sentences,
        batch_wait_ms=batch_wait_ms,
        max_waiting=max_waiting,
        api_key=read_key(api_key_file),
    )
    from rankencoder import web_process
    from rankencoder.model import RankEncoder, open_model

    prepare(model)
    listener = web_process.bind(host, port)  # before the model, whose loading takes a while
    from rankencoder.search import RankIndex
    from rankencoder.server.server_app import create_app

    opened = open_model(model, device=device, batch_size=batch_size or _GPU_BATCH)
    if batch_size is None and opened.device.type == "cpu":
        (opened.encoder if isinstance(opened, RankEncoder) else opened).batch_size = _CPU_BATCH
    app = create_app(opened, settings, index=None if index is None else RankIndex.load(index, opened))
    with server_log():
        if settings.api_key is None and host not in web_process.LOOPBACK:
            LOG.warning("no API key: everybody who reaches %s may ask", host)
        LOG.info("%s: %d dimensions; description at /docs", settings.name, opened.dimension)
        web_process.run(app, listener, timeout=timeout, grace=timeout + _GRACE)
