"""Build a demo model and index for the explorer, once per cache."""

from __future__ import annotations

import logging
from pathlib import Path

from rankencoder.demo import docstrings
from rankencoder.demo.encoder import bundled_encoder
from rankencoder.distillation.distiller import distill
from rankencoder.io.storage import cache_root
from rankencoder.model import RankEncoder
from rankencoder.search.rank_index import RankIndex

LOG = logging.getLogger(__name__)


def make_playground() -> tuple[Path, Path]:
    """Return the folders of a RankEncoder and of an index of the docstrings that it was distilled on."""
    folder = cache_root("playground")
    model, index, ready = folder / "Python docstrings", folder / "index", folder / "ready"
    if not ready.exists():
        text = list(dict.fromkeys(docstrings.sentences(docstrings.standard_library())))
        if not model.is_dir():
            LOG.warning("distilling a static encoder on this Python's docstrings, once; it takes minutes")
            teacher = str(bundled_encoder())
            run = distill(text, folder, teacher=teacher, student="static", overwrite=True, progress=True)
            RankEncoder(str(run.encoder), text, progress=False).save(model)
        RankIndex.build(model, text, index, progress=True)
        ready.touch()
    return model, index
