"""Evaluation against the naive loop: seven STS sets and SentEval's transfer tasks, as scripts do it.

The naive loop encodes the pairs of each set in their order, 64 at a time and whether or not a sentence was
seen before, and trains one classifier after the other, a fold and a weight of L2 each. Both sides give the
same scores. To take minutes and not hours, each set gives its first pairs and each task its first rows.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from senteval_classifier import L2_WEIGHTS, Fold, fit_classifiers
from senteval_tasks import TRANSFER_TASKS, read_transfer_task
from sklearn.model_selection import StratifiedKFold
from sts import SHARED

from rankencoder.encoders import Encoder
from rankencoder.evaluation.pairwise import encode_pairs, pair_similarities
from rankencoder.evaluation.statistics import spearman
from rankencoder.evaluation.sts_data import SEVEN, PairSet, read_sts
from speed.models import load, model_folder
from speed.timing import compare

BATCH = 64
SEED = 1111
FOLDS = 5


def naive_sts(model: SentenceTransformer, sets: list[list[Any]]) -> list[float]:
    """Score pairs as they come."""
    found = []
    for pairs in sets:
        similarities: list[np.ndarray] = []
        for start in range(0, len(pairs), BATCH):
            some = pairs[start : start + BATCH]
            a = model.encode([pair.a for pair in some], normalize_embeddings=True)
            b = model.encode([pair.b for pair in some], normalize_embeddings=True)
            similarities.append((a * b).sum(axis=1))
        found.append(spearman(np.array([pair.score for pair in pairs]), np.concatenate(similarities)))
    return found


def our_sts(encoder: Encoder, sets: list[list[Any]]) -> list[float]:
    """Score pairs of all sets, each distinct sentence being encoded once."""
    joined = [pair for pairs in sets for pair in pairs]
    similarities = pair_similarities(None, encode_pairs(encoder, joined))
    parts = np.split(similarities, np.cumsum([len(pairs) for pairs in sets])[:-1])
    gold = [np.array([pair.score for pair in pairs]) for pairs in sets]
    return [spearman(g, part) for g, part in zip(gold, parts, strict=True)]


def classify(rows: torch.Tensor, labels: np.ndarray, *, at_once: bool) -> np.ndarray:
    """Return the accuracies of all folds and weights of L2, trained at once or one after the other."""
    split = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(rows, labels)
    folds = [Fold(train, test) for train, test in split]
    given: dict[str, Any] = {"classes": int(labels.max()) + 1, "seed": SEED}
    if at_once:
        return fit_classifiers(rows, labels, folds, [L2_WEIGHTS] * FOLDS, **given).accuracy
    return np.array(
        [
            [fit_classifiers(rows, labels, [fold], [[l2]], **given).accuracy[0, 0] for l2 in L2_WEIGHTS]
            for fold in folds
        ]
    )


def transfer_rows(name: str, number: int, encoder: Encoder) -> tuple[torch.Tensor, np.ndarray]:
    """Return features and classes of some rows of a task; of a pair |u − v| and u·v, as SentEval has it."""
    split = next(iter(read_transfer_task(SHARED / "data/senteval", name).splits.values()))
    some = np.random.default_rng(0).permutation(len(split.labels))[:number]
    rows = encoder.raw([split.first[i] for i in some]).cpu()
    if split.second:
        others = encoder.raw([split.second[i] for i in some]).cpu()
        rows = torch.cat([(rows - others).abs(), rows * others], dim=1)
    return rows, _dense(np.array([split.labels[i] for i in some]))


def measure(device: str, *, quick: bool) -> list[dict[str, Any]] | None:
    """Time both parts; None without the development data."""
    if not (SHARED / "data/sts-raw").exists():
        print("evaluation needs ../shared, which is not here", flush=True)
        return None
    model = load("22M", device)
    encoder = Encoder(model)
    rounds = 1 if quick else 3
    sets = [_first(pair_set, 60 if quick else 150) for pair_set in read_sts(SHARED / "data/sts-raw", SEVEN)]
    works = {"ours": lambda: our_sts(encoder, sets), "naive loop": lambda: naive_sts(model, sets)}
    same = float(np.abs(np.array(works["ours"]()) - works["naive loop"]()).max())
    about = {"model": model_folder("22M")[0], "pairs": sum(map(len, sets))}
    sts = {"what": "seven STS sets", **about, **compare(works, "ours", rounds=rounds, device=device)}
    return [{**sts, "difference": same}, *_transfer(encoder, device, quick)]


def _first(pair_set: PairSet, number: int) -> list[Any]:
    """Return the first pairs of each sub-set, in all so many."""
    each = -(-number // len(pair_set.subsets))
    return [pair for pairs in pair_set.subsets.values() for pair in islice(pairs, each)][:number]


def _transfer(encoder: Encoder, device: str, quick: bool) -> list[dict[str, Any]]:
    """Time the classifiers; encoding is the same work as above."""
    tasks = list(TRANSFER_TASKS)[: 2 if quick else None]
    rows = {name: transfer_rows(name, 200 if quick else 400, encoder) for name in tasks}
    works = {
        "ours": lambda: [classify(*found, at_once=True) for found in rows.values()],
        "naive loop": lambda: [classify(*found, at_once=False) for found in rows.values()],
    }
    pairs = zip(works["ours"](), works["naive loop"](), strict=True)
    same = max(float(np.abs(a - b).max()) for a, b in pairs)
    about = {"what": f"classifiers of {len(tasks)} transfer tasks", "rows": 200 if quick else 400}
    return [{**about, "difference": same, **compare(works, "ours", rounds=1 if quick else 3, device="cpu")}]


def _dense(labels: np.ndarray) -> np.ndarray:
    """Return labels without gaps: of a few rows, a rare class may be missing."""
    return np.asarray(np.unique(labels, return_inverse=True)[1])
