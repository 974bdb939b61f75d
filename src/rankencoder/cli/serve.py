"""``rankencoder serve``."""

from __future__ import annotations

import importlib.util
import logging
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from rankencoder.backends.opening import Opening
from rankencoder.cli.console import prepare
from rankencoder.cli.options import HERE, Host, Index, Port, opens_models
from rankencoder.errors import InputError, MissingExtraError
from rankencoder.server.server_settings import ServerSettings, read_key
from rankencoder.training.settings_model import explain

LOG = logging.getLogger(__name__)
_NEEDED = ("fastapi", "uvicorn", "prometheus_client")
_GRACE = 30  # seconds more than a request may take that the end waits for requests in flight
_CPU_BATCH = 16  # a CPU gains nothing from more: they outgrow its caches, and are padded more
_DEFAULTS = ServerSettings()


def _setting(name: str) -> Any:
    return typer.Option(help=ServerSettings.model_fields[name].description)


@partial(opens_models, left_out=("batch_size",))
def serve(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL…", help="RankEncoders, folders of training runs, or any encoders."),
    ],
    index: Index = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", help="What clients call a model (its folder's name). Once for each."),
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the key that clients must send (or RANKENCODER_API_KEY).")
    ] = None,
    max_body_mb: Annotated[float, _setting("max_body_mb")] = _DEFAULTS.max_body_mb,
    timeout: Annotated[float, _setting("timeout")] = _DEFAULTS.timeout,
    batch_sentences: Annotated[int, _setting("batch_sentences")] = _DEFAULTS.batch_sentences,
    batch_wait_ms: Annotated[float, _setting("batch_wait_ms")] = _DEFAULTS.batch_wait_ms,
    max_waiting: Annotated[int, _setting("max_waiting")] = _DEFAULTS.max_waiting,
    opening: Opening = HERE,
) -> None:
    """Answer over HTTP: OpenAI-compatible embeddings, similarity, explain and search.

    Concurrent requests are encoded together. Ctrl-C or SIGTERM finishes what is in flight. Of several
    models, requests choose by name; the first is the default.

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
        raise InputError(f"{told}: give each a name of its own with `names`")
    try:
        settings = ServerSettings(
            name=names[0],
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

    for model in models:
        prepare(model)
    listener = web_process.bind(host, port)  # before the models, whose loading takes a while
    from rankencoder.search.rank_index import RankIndex
    from rankencoder.server.server_app import create_app

    running: Opening = {**opening, "batch_size": batch_sentences}
    opened = {name: _open(model, running) for name, model in zip(names, models, strict=True)}
    searched = None
    for one in opened.values() if index else ():
        searched = RankIndex.load(index or "", one)
        with suppress(InputError):  # one that fits no model is refused below
            _ = searched.model
            break
    app = create_app(opened, settings, index=searched)
    if settings.api_key is None and host not in web_process.LOOPBACK:
        LOG.warning("no API key set: anyone who can reach %s can use this server", host)
    for name, one in opened.items():
        LOG.info("%s: %d dimensions; description at /openapi.json", name, one.dimension)
    web_process.run(app, listener, grace=timeout + _GRACE)


def _open(model: str, opening: Opening) -> Any:
    from rankencoder.model import RankEncoder, open_model

    opened = open_model(model, **opening)
    if opened.device.type == "cpu":
        encoder = opened.encoder if isinstance(opened, RankEncoder) else opened
        encoder.batch_size = min(encoder.batch_size, _CPU_BATCH)
    return opened
