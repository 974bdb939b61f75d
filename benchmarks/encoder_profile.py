"""One encoder in brief: what every similarity scores on STS, and what its space looks like without labels.

All of it comes from one encoding of the STS sentences, 10,000 reference sentences and parts of 2,000 of them:
seconds on a GPU. `when.py` looks for a rule that predicts the first from the second.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sts_curves import POWERS, WEIGHTS, with_average
from vector_spaces import alignment, describe_space, hubness, spread, uniformity

from rankencoder.blend import blend
from rankencoder.encoders import Encoder, unit
from rankencoder.evaluation.halves import LOOKED_AT, SENTENCES, WORDS, evenly, halved, related_pairs
from rankencoder.evaluation.pairwise import PairVectors, encode_pairs, pair_similarities
from rankencoder.evaluation.statistics import spearman
from rankencoder.evaluation.sts_data import PairSet
from rankencoder.evaluation.subjects import Subject
from rankencoder.evaluation.vector_cache import CachedEncoder
from rankencoder.forms import Form, fit_form
from rankencoder.io.corpus import read_sentences
from rankencoder.io.sampling import sample_sentences

REFERENCES = 10_000
SEED = 42
Similarity = Callable[[PairVectors], np.ndarray]


def draw_references(corpus: Path, size: int = REFERENCES) -> list[str]:
    """Return the sentences that a training on this corpus takes for its reference corpus."""
    return sample_sentences(read_sentences(corpus), size, SEED).sentences


def similarities(reference: torch.Tensor) -> dict[str, Similarity]:
    """Return every similarity that there is to choose from, by name; blends are made of two of them."""
    found: dict[str, Form | None] = {"cosine": None, "ranks": fit_form("exact", reference)}
    for center, how in ((False, "plain"), (True, "centered")):
        for power in POWERS:
            if power or center:
                found[f"{how} {power:+g}"] = fit_form("linear", reference, power=power, center=center)
    return {name: partial(pair_similarities, form) for name, form in found.items()}


def with_blends(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add Eq. 7's blends of ranks and cosine to what was measured."""
    blends = {f"blend {w:g}": blend(values["ranks"], values["cosine"], w) for w in WEIGHTS if 0 < w < 1}
    return {**values, **blends}


def profile(encoder: CachedEncoder, sets: Sequence[PairSet], corpus: Sequence[str]) -> dict[str, Any]:
    """Measure an encoder.

    :param sets: Scored pairs.
    :param corpus: Reference sentences.
    :return: ``scores`` (Spearman ×100 by similarity and set), ``space`` (Table 2's figures on STS-B); and of
        no labels ``features`` (numbers), ``proxies`` (by similarity: Spearman ×100 with how much of a
        sentence is left, say), ``eigenvalues``.
    """
    reference = encoder(corpus).to("cuda" if torch.cuda.is_available() else "cpu")  # where ranks are made
    measures = similarities(reference)
    scores: dict[str, dict[str, list[float]]] = {}
    for pair_set in sets:
        gold = np.array([pair.score for pair in pair_set.pairs])
        encoded = encode_pairs(encoder, pair_set.pairs)
        for name, values in with_blends({n: measure(encoded) for n, measure in measures.items()}).items():
            scores.setdefault(name, {})[pair_set.name] = [100 * spearman(gold, values)]
    proxies, features = unlabelled(encoder, corpus, reference, measures)
    return {
        "dimension": reference.shape[1],
        "references": len(corpus),
        "scores": {
            name: {s: _digits(v[0]) for s, v in with_average(of).items()} for name, of in scores.items()
        },
        "space": {s.name: describe_space(Subject("", encoder), s)["base"] for s in sets if "STS-B" in s.name},
        "features": {name: _digits(value) for name, value in features.items()},
        "proxies": {of: {name: _digits(v) for name, v in found.items()} for of, found in proxies.items()},
        "eigenvalues": [_digits(value) for value in eigenvalues(reference)],
    }


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def eigenvalues(vectors: torch.Tensor) -> list[float]:
    """Return those of the covariance, from the largest to the smallest."""
    rows = vectors.double()
    rows = rows - rows.mean(dim=0)
    found: list[float] = torch.linalg.eigvalsh(rows.T @ rows / len(rows)).flip(0).clamp(min=0).tolist()
    return found


def space_features(reference: torch.Tensor) -> dict[str, float]:
    """Return numbers that describe a space, of its reference vectors alone."""
    some = evenly(reference, LOOKED_AT)
    values = np.array(eigenvalues(reference))
    shares = values / values.sum()
    rows, columns = torch.triu_indices(len(some), len(some), 1, device=some.device)
    cosines = (some @ some.T)[rows, columns].double()
    away = cosines - cosines.mean()
    deviation = away.square().mean().sqrt()
    return {
        "uniformity": uniformity(some),
        "hubness": hubness(some),
        **spread(some)._asdict(),
        "participation_ratio": float(1 / (shares**2).sum()),
        "relative_rank": float(np.exp(-(shares * np.log(shares + 1e-30)).sum()) / len(shares)),
        "decay": _decay(shares),
        "cosine_mean": float(cosines.mean()),
        "cosine_deviation": float(deviation),
        "cosine_skewness": float((away / deviation.clamp(min=1e-12)).pow(3).mean()),
    }


def _decay(shares: np.ndarray) -> float:
    """Return α where the i-th eigenvalue is about i^−α, in the first half of them less the first."""
    half = shares[1 : len(shares) // 2]
    if len(half) < 4:
        return 0.0
    slope = np.polyfit(np.log(np.arange(2, len(half) + 2)), np.log(half + 1e-30), 1)[0]
    return float(-slope)


def unlabelled(
    encoder: Encoder, corpus: Sequence[str], reference: torch.Tensor, measures: dict[str, Similarity]
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Return how well each similarity tells related sentences from others, and features of the space."""
    texts = [text for text in corpus if len(text.split()) >= WORDS][:SENTENCES]
    features = space_features(reference)
    proxies: dict[str, dict[str, float]] = {}
    for name, related in relations(texts).items():
        first, second, levels = zip(*related, strict=True)
        a, b = encoder(first), encoder(second)
        features[f"alignment_{name}"] = alignment(a, b)
        proxies[name] = agreement(torch.cat([a, b]), levels, measures)
    views = dropout_views(encoder, texts)
    features["alignment_dropout"] = alignment(*views) if views else 0.0
    return proxies, features


def agreement(
    vectors: torch.Tensor, related: Sequence[float], measures: dict[str, Similarity]
) -> dict[str, float]:
    """Return by similarity its Spearman correlation with how much texts are related (`related_pairs`)."""
    pairs, gold = related_pairs(vectors, related)
    values = with_blends({name: measure(pairs) for name, measure in measures.items()})
    return {name: 100 * spearman(gold, found) for name, found in values.items()}


def relations(texts: Sequence[str]) -> dict[str, list[tuple[str, str, float]]]:
    """Return pairs of texts that are related more or less, with a number that says how much.

    "dropped" are a sentence and what is left of it when some of its words are dropped, the number being the
    share that is left; "halves" the two halves of a sentence.
    """
    draw = random.Random(SEED)
    dropped = []
    for text in texts:
        words = text.split()
        kept = sorted(draw.sample(range(len(words)), draw.randint(1, len(words) - 1)))
        dropped.append((text, " ".join(words[i] for i in kept), len(kept) / len(words)))
    return {"dropped": dropped, "halves": [(*halves, 1.0) for halves in halved(texts)]}


def dropout_views(encoder: Encoder, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the unit vectors of some sentences under two dropout masks, of an encoder that has dropout."""
    if encoder.model is None:
        return None
    model: Any = encoder.model
    torch.manual_seed(SEED)
    found = []
    model.train()
    with torch.no_grad():
        for _ in range(2):
            rows = []
            for start in range(0, min(len(texts), 512), 64):
                features = model.preprocess(list(texts[start : start + 64]))
                there = {
                    k: v.to(model.device) if isinstance(v, torch.Tensor) else v for k, v in features.items()
                }
                rows.append(model(there)["sentence_embedding"].float())
            found.append(unit(torch.cat(rows)))
    model.eval()
    return found[0], found[1]
