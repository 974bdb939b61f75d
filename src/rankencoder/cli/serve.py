"""``rankencoder serve``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from rankencoder.cli.console import Device, quiet_libraries
from rankencoder.errors import InputError

_NEEDED = ("fastapi", "uvicorn", "prometheus_client")


def serve(
    model: Annotated[str, typer.Argument(help="A RankEncoder folder, or an encoder: folder or hub name.")],
    index: Annotated[
        Path | None, typer.Option(help="An index for /search, made with the same model.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all of them.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    name: Annotated[str | None, typer.Option(help="What clients call the model (its folder's name).")] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the key that clients must show (or RANKENCODER_API_KEY).")
    ] = None,
    max_sentences: Annotated[int, typer.Option(min=1, help="Sentences per request.")] = 2048,
    max_chars: Annotated[int, typer.Option(min=1, help="Characters per sentence.")] = 10_000,
    max_body_mb: Annotated[float, typer.Option(min=0.001, max=1000, help="Megabytes per request.")] = 8.0,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that a request may take.")] = 60.0,
    batch_sentences: Annotated[int, typer.Option(min=1, help="Sentences encoded together.")] = 64,
    batch_wait_ms: Annotated[float, typer.Option(min=0, help="How long to wait for more of them.")] = 3.0,
    max_waiting: Annotated[int, typer.Option(min=1, help="Sentences that may wait.")] = 16_384,
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
    from rankencoder.server.server_settings import Settings, read_key

    settings = Settings(
        name=name or _name(model),
        max_sentences=max_sentences,
        max_chars=max_chars,
        max_body=int(max_body_mb * 1e6),
        timeout=timeout,
        batch_sentences=batch_sentences,
        batch_wait=batch_wait_ms / 1000,
        max_waiting=max_waiting,
        api_key=read_key(api_key_file),
    )
    from rankencoder.encoders import check_encoder_name
    from rankencoder.persistence import CONFIG, read_config
    from rankencoder.server.serving import bind, log_to_stderr, run

    read_config(Path(model)) if (Path(model) / CONFIG).exists() else check_encoder_name(model)
    listener = bind(host, port)  # before the model, whose loading takes a while
    quiet_libraries()
    from rankencoder.server import LOG
    from rankencoder.server.api import create_app
    from rankencoder.server.served_model import open_index, open_served

    served = open_served(model, device=device, batch_size=batch_size)
    app = create_app(served, settings, index=None if index is None else open_index(index, served))
    log_to_stderr()
    LOG.info("%s, %d numbers a sentence", settings.name, served.dimension)
    if settings.api_key is None and host not in ("127.0.0.1", "localhost", "::1"):
        LOG.warning("no API key: everybody who reaches %s may ask", host)
    run(app, listener, timeout=timeout)


def _name(model: str) -> str:
    """Return a folder's name, or a hub name as it is."""
    folder = Path(model)
    return folder.resolve().name if folder.exists() else model
