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
    """Return Spearman's correlations and, for questions that are duplicates or not, areas under the curve.

    All are ×100. Whoever learns from the text of QQP dev reads the questions of half of its pairs: "QQP seen"
    is of pairs with such questions alone, "QQP unseen" of pairs with none.
    """
    encoder = Encoder(model, batch_size=BATCH)
    scores = {}
    for pairs in read_sts(STS, (*SEVEN, "STS-B dev")):
        scores[pairs.name] = 100 * spearman(pairs.gold, cosines(encoder, pairs.pairs))
    scores["AVG"] = float(np.mean([scores[name] for name in SEVEN]))
    related = read_scored_pairs(PAIRS / "semrel2024_en_dev.tsv")
    scores["SemRel dev"] = 100 * spearman([pair.score for pair in related], cosines(encoder, related))
    return scores | score_questions(encoder)


def score_questions(encoder: Encoder) -> dict[str, float]:
    """Return the area under the curve of duplicate questions, ×100, by whether their text was to be seen."""
    from sklearn.metrics import roc_auc_score

    pairs = read_questions()
    seen = set(seen_questions())
    labels, found = np.array([pair.score > 0.5 for pair in pairs]), cosines(encoder, pairs)
    number = np.array([sum(text in seen for text in pair[:2]) for pair in pairs])
    rows = {"QQP dev": number >= 0, "QQP seen": number == 2, "QQP unseen": number == 0}
    return {name: 100 * float(roc_auc_score(labels[of], found[of])) for name, of in rows.items()}


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
