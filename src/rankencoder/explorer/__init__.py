"""A web page to compare sentences, view maps, search and label."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.opening import Opening
    from rankencoder.model import RankEncoder
    from rankencoder.search.rank_index import RankIndex

__all__ = ["explore"]
LOG = logging.getLogger(__name__)
_REFERENCE = 2000  # sentences of an index, as the reference corpus of a plain encoder


def explore(
    model: str | Path,
    index: str | Path | None = None,
    *,
    labels: str | Path | None = None,
    host: str = "127.0.0.1",
    port: int = 7860,
    name: str | None = None,
    **opening: Unpack[Opening],
) -> None:
    """Explore a model on a web page, until Ctrl-C or SIGTERM.

    :param model: The folder of a RankEncoder, of a training run, or of a plain encoder, or a hub name.
    :param index: The folder of an index made with it, to search. A plain encoder needs one: its sentences
        become its reference corpus.
    :param labels: A file of labels for pairs of the index, new or to resume.
    :param port: The port; 0 for any free one.
    :param name: The model's name on the page; by default that of its folder.
    """
    if importlib.util.find_spec("gradio") is None:
        raise MissingExtraError("explore needs gradio", "explore")
    if labels is not None and index is None:
        raise InputError("labeling needs an index to draw pairs from: set `index`")
    from rankencoder import web_process

    listener = web_process.bind(host, port)  # before the model, which takes a while to load
    opened, searched = open_explored(model, index, **opening)
    from rankencoder.explorer.explorer_app import create_app
    from rankencoder.explorer.explorer_state import ExplorerState
    from rankencoder.explorer.label_tab import LabelDesk

    desk = None if labels is None or searched is None else LabelDesk(Path(labels), str(model), searched)
    app = create_app(ExplorerState(opened, searched, name or Path(model).resolve().name, desk=desk))
    if host not in web_process.LOOPBACK:
        LOG.warning("anyone who can reach %s can read the reference corpus and the index", host)
    web_process.run(app, listener, grace=1)


def open_explored(
    model: Any, index: str | Path | None = None, **opening: Unpack[Opening]
) -> tuple[RankEncoder, RankIndex | None]:
    """Open a model and its index (see `explore`)."""
    from rankencoder.model import RankEncoder, open_model, open_rankencoder
    from rankencoder.reference import Reference
    from rankencoder.search.rank_index import RankIndex

    if index is None:
        return open_rankencoder(model, **opening), None
    opened = open_model(model, **opening)
    searched = RankIndex.load(index, opened)
    if isinstance(opened, RankEncoder):
        return opened, searched
    texts = (text for batch in searched.rows.batches(["text"]) for text in batch["text"].to_pylist())
    reference = Reference.build(opened, list(texts), size=_REFERENCE, progress=False)
    return RankEncoder(opened, reference, progress=False), searched
