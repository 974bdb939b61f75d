"""Draw pairs of a corpus or index to label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.io.read_options import ReadOptions
from rankencoder.labels.pair_pool import PairPool
from rankencoder.model import open_model
from rankencoder.search.index_folder import CONFIG
from rankencoder.search.rank_index import RankIndex
from rankencoder.search.records import Records
from rankencoder.text_fit import with_tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rankencoder.backends.opening import Opening


def draw_pool(
    model: Any,
    corpus: Any,
    *,
    name: str | None = None,
    column: str | ReadOptions | None = None,
    seed: int = 0,
    progress: bool = False,
    **opening: Unpack[Opening],
) -> PairPool:
    """Draw pairs of near sentences to label (see `PairPool`).

    :param model: A model for `rankencoder.model.open_model`.
    :param corpus: A corpus for `rankencoder.io.corpus.read_sentences`, an index of the model, or its folder.
    :param name: A name for the model.
    :param opening: How to run a model that is loaded by name, as for `open_model`.
    """
    opened = open_model(model, **opening)
    if isinstance(corpus, (str, Path)) and (Path(corpus) / CONFIG).exists():
        corpus = RankIndex.load(corpus, opened)
        _ = corpus.model  # raises an error if the index was made with another
    if isinstance(corpus, RankIndex):
        records, vectors = Records.read_index(corpus)
    else:
        records = Records.read(corpus, with_tokenizer(column, opened))
        texts = records.texts
        vectors = opened.encode(texts, progress=progress) if texts else np.zeros((0, 1), np.float32)
    name = name or (str(model) if isinstance(model, (str, Path)) else opened.name)
    return PairPool.of_vectors(records.texts, vectors, seed=seed, model=opened.identity(), name=name)
