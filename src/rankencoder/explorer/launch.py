"""The explorer as a process: what is opened, in which order, and its end."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from rankencoder.errors import InputError

_LONGEST = 1  # second that the end waits for what is being computed


def explore(
    model: str | Path,
    index: str | Path | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 7860,
    device: str | None = None,
    name: str | None = None,
) -> None:
    """Show a RankEncoder on a page, until Ctrl-C or SIGTERM, which end the process.

    :param model: The folder of a RankEncoder.
    :param index: The folder of an index that was made with it, to search.
    :param host: The address to listen on; 0.0.0.0 is all of them.
    :param port: The port; 0 takes a free one.
    :param device: Where to run the encoder.
    :param name: What to call the model, if not by its folder.
    :raises InputError: If gradio is not installed, the model has no reference corpus, the index was made with
        another, or the port is taken.
    """
    if importlib.util.find_spec("gradio") is None:
        raise InputError("explore needs gradio: pip install 'rankencoder[explore]'")
    from rankencoder.persistence import read_config
    from rankencoder.server import LOG
    from rankencoder.server.serving import bind, log_to_stderr, run

    read_config(Path(model))
    if index is not None:
        from rankencoder.search.index_folder import IndexFolder

        IndexFolder(index).read()
    listener = bind(host, port)  # before the model, whose loading takes a while
    from rankencoder.cli.console import quiet_libraries

    quiet_libraries()
    from rankencoder.server.served_model import open_index, open_served

    served = open_served(str(model), device=device, batch_size=None)
    opened = None if index is None else open_index(Path(index), served)
    from rankencoder.explorer.explorer_app import create_app
    from rankencoder.explorer.explorer_state import Explored

    assert served.ranked is not None  # its configuration was read
    app = create_app(Explored(served.ranked, opened, name or Path(model).resolve().name))
    log_to_stderr()
    if host not in ("127.0.0.1", "localhost", "::1"):
        LOG.warning("everybody who reaches %s may read the reference corpus, and the index", host)
    run(app, listener, timeout=_LONGEST, about=" (open it in a browser)", streams=True)
    os._exit(0)  # threads that still compare sentences cannot be stopped otherwise
