"""The scores of an encoder in ``results/distill``: the seven STS sets, and pairs of other domains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jobs import STS
from sts import SHARED

from rankencoder.encoders import Encoder
from rankencoder.evaluation.pairwise import encode_pairs, pair_similarities
from rankencoder.evaluation.statistics import spearman
from rankencoder.evaluation.sts_data import SEVEN, read_sts
from rankencoder.io.pairs import ScoredPair, read_scored_pairs

PAIRS = SHARED / "data/pairs"
BATCH = 256


def score_encoder(model: str | Path) -> dict[str, float]:
    """Return Spearman's correlations and, for duplicate questions, the area under the curve, all ×100."""
    encoder = Encoder(model, batch_size=BATCH)
    scores = {}
    for pairs in read_sts(STS, (*SEVEN, "STS-B dev")):
        scores[pairs.name] = 100 * spearman(pairs.gold, cosines(encoder, pairs.pairs))
    scores["AVG"] = float(np.mean([scores[name] for name in SEVEN]))
    related = read_scored_pairs(PAIRS / "semrel2024_en_dev.tsv")
    scores["SemRel dev"] = 100 * spearman([pair.score for pair in related], cosines(encoder, related))
    return scores | {"QQP dev": score_questions(encoder)}


def score_questions(encoder: Encoder) -> float:
    """Return the area under the curve of duplicate questions, ×100."""
    from sklearn.metrics import roc_auc_score

    pairs = read_questions()
    return 100 * float(roc_auc_score([pair.score > 0.5 for pair in pairs], cosines(encoder, pairs)))


def read_questions() -> list[ScoredPair]:
    """Return the pairs of QQP dev."""
    return read_scored_pairs(PAIRS / "qqp_dev.tsv")


def seen_questions() -> list[str]:
    """Return the distinct questions of half of QQP dev, drawn at random since its labels alternate."""
    pairs = read_questions()
    drawn = np.random.default_rng(0).permutation(len(pairs))[: len(pairs) // 2]
    return list(dict.fromkeys(text for i in sorted(drawn) for text in pairs[i][:2]))


def cosines(encoder: Encoder, pairs: Sequence[ScoredPair]) -> np.ndarray:
    """Return the cosine of each pair."""
    return pair_similarities(None, encode_pairs(encoder, pairs))
