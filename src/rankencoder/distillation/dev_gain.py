"""Score a student on labeled pairs before and after, with an interval of the gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.evaluation.pair_metrics import Metric, joint_name, metric_for
from rankencoder.evaluation.statistics import BootstrapScores, mean_gain
from rankencoder.io.pairs import ScoredPair, read_scored_pairs


def measure_gain(files: Sequence[str], before: Encoder, after: Encoder) -> dict[str, Any]:
    """Return the score on files of pairs before and after, averaged over files, and the gain.

    Each file is scored by its own metric: average precision where its labels are yes/no, else Spearman.
    """
    read = [read_scored_pairs(file) for file in files]
    metrics = [metric_for([pair.score for pair in pairs]) for pairs in read]
    sets = [
        (score_pairs(metric, pairs, before), score_pairs(metric, pairs, after))
        for metric, pairs in zip(metrics, read, strict=True)
    ]
    gain = mean_gain(sets)
    means = [float(np.mean([pair[side].runs.mean() for pair in sets])) for side in (0, 1)]
    return {
        "files": list(files),
        "metric": joint_name(metrics),
        "before": means[0],
        "after": means[1],
        "gain": gain.value,
        "interval": [gain.low, gain.high],
    }


def score_pairs(metric: Metric, pairs: Sequence[ScoredPair], encoder: Encoder) -> BootstrapScores:
    """Return an encoder's score on pairs, bootstrapped."""
    a, b, gold = map(list, zip(*pairs, strict=True))
    cosines = (encoder(a) * encoder(b)).sum(dim=1).cpu().numpy()
    return metric.bootstrap(np.array(gold), cosines)
