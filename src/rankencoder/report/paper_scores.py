"""Scores published in the RankEncoder paper.

All are of BERT-base (`bert-base-uncased`), unsupervised; Spearman's correlation ×100 unless said otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path

SOURCE = (
    "Seonwoo, Wang, Seo, Choudhary, Li, Li, Xu, Park, Oh: Ranking-Enhanced Unsupervised Sentence "
    "Representation Learning, ACL 2023"
)
NOT_COMPARABLE = (
    "The published figures are of BERT-base, another backbone, trained without labels: compare gains with "
    "gains, not scores with scores."
)

_TABLES = json.loads(Path(__file__).with_name("published_figures.json").read_text(encoding="utf-8"))

STS: dict[str, list[float]] = _TABLES["STS"]["figures"]
STS_SEEDS: dict[str, list[tuple[float, float]]] = _TABLES["STS_SEEDS"]["figures"]
