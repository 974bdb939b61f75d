"""``rankencoder serve``."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from rankencoder.cli.console import prepare, server_log
from rankencoder.cli.options import AnyModel, Device, Host, Index, Port
from rankencoder.errors import InputError
from rankencoder.server.server_settings import ServerSettings, read_key
from rankencoder.training.settings_model import explain

LOG = logging.getLogger(__name__)
_NEEDED = ("fastapi", "uvicorn", "prometheus_client")
_GRACE = 30  # seconds more than a request may take that the end waits for requests in flight
_CPU_BATCH = 16  # a CPU gains nothing from more: they outgrow its caches, and are padded more
_DEFAULTS = ServerSettings()


def _setting(name: str) -> Any:
    return typer.Option(help=ServerSettings.model_fields[name].description)


def serve(
    model: AnyModel,
    index: Index = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    name: Annotated[str | None, typer.Option(help="What clients call the model (its folder's name).")] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the key that clients must send (or RANKENCODER_API_KEY).")
    ] = None,
    max_body_mb: Annotated[float, _setting("max_body_mb")] = _DEFAULTS.max_body_mb,
    timeout: Annotated[float, _setting("timeout")] = _DEFAULTS.timeout,
    batch_sentences: Annotated[int, _setting("batch_sentences")] = _DEFAULTS.batch_sentences,
    batch_wait_ms: Annotated[float, _setting("batch_wait_ms")] = _DEFAULTS.batch_wait_ms,
    max_waiting: Annotated[int, _setting("max_waiting")] = _DEFAULTS.max_waiting,
    device: Device = None,
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
    try:
        settings = ServerSettings(
            name=name or (Path(model).resolve().name if Path(model).exists() else model),
            max_body_mb=max_body_mb,
            timeout=timeout,
            batch_sentences=batch_sentences,
            batch_wait_ms=batch_wait_ms,
            max_waiting=max_waiting,
            api_key=read_key(api_key_file),
        )
    except ValidationError as error:
        raise InputError(explain(error, "`{}`")) from error
    from rankencoder import web_process
    from rankencoder.model import RankEncoder, open_model

    prepare(model)
    listener = web_process.bind(host, port)  # before the model, whose loading takes a while
    from rankencoder.search import RankIndex
    from rankencoder.server.server_app import create_app

    opened = open_model(model, device=device, batch_size=batch_sentences)
    if opened.device.type == "cpu":
        encoder = opened.encoder if isinstance(opened, RankEncoder) else opened
        encoder.batch_size = min(batch_sentences, _CPU_BATCH)
    app = create_app(opened, settings, index=None if index is None else RankIndex.load(index, opened))
    with server_log():
        if settings.api_key is None and host not in web_process.LOOPBACK:
            LOG.warning("no API key: everybody who reaches %s may ask", host)
        LOG.info("%s: %d dimensions; description at /openapi.json", settings.name, opened.dimension)
        web_process.run(app, listener, timeout=timeout, grace=timeout + _GRACE)
