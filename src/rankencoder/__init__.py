"""Unlabeled text in, a better sentence encoder out: rank vectors over a reference corpus."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rankencoder._version import __version__ as __version__

if TYPE_CHECKING:
    from rankencoder.distillation.distiller import distill as distill
    from rankencoder.evaluation.evaluator import evaluate as evaluate
    from rankencoder.integrations.sklearn import RankTransformer as RankTransformer
    from rankencoder.model import RankEncoder as RankEncoder
    from rankencoder.ranks import rank_similarity as rank_similarity
    from rankencoder.ranks import rank_vectors as rank_vectors
    from rankencoder.reference import Reference as Reference
    from rankencoder.search.near_duplicates import find_duplicates as find_duplicates
    from rankencoder.search.rank_index import RankIndex as RankIndex
    from rankencoder.training.run import train as train
    from rankencoder.tuning.tuner import tune as tune

_HOME = {
    "RankEncoder": "rankencoder.model",
    "RankIndex": "rankencoder.search.rank_index",
    "RankTransformer": "rankencoder.integrations.sklearn",
    "Reference": "rankencoder.reference",
    "distill": "rankencoder.distillation.distiller",
    "evaluate": "rankencoder.evaluation.evaluator",
    "find_duplicates": "rankencoder.search.near_duplicates",
    "rank_similarity": "rankencoder.ranks",
    "rank_vectors": "rankencoder.ranks",
    "train": "rankencoder.training.run",
    "tune": "rankencoder.tuning.tuner",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import rankencoder`` is fast."""
    if name not in _HOME:
        raise AttributeError(f"module 'rankencoder' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
