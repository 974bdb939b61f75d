"""What labelled pairs say of a student: its correlation before and after, and the gain with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankencoder.encoders import Encoder
from rankencoder.evaluation.statistics import Bootstrapped, bootstrap_spearman, mean_gain
from rankencoder.io.pairs import read_scored_pairs


def measure_gain(files: Sequence[str], before: Encoder, after: Encoder) -> dict[str, Any]:
    """Return the correlation with scored pairs before and after, averaged over files, and the gain."""
    sets = [(score_pairs(file, before), score_pairs(file, after)) for file in files]
    gain = mean_gain(sets)
    means = [float(np.mean([pair[side].runs.mean() for pair in sets])) for side in (0, 1)]
    return {
        "files": list(files),
        "before": means[0],
        "after": means[1],
        "gain": gain.value,
        "interval": [gain.low, gain.high],
    }


def score_pairs(file: str, encoder: Encoder) -> Bootstrapped:
    """Return an encoder's correlation on a file of scored pairs, bootstrapped."""
    a, b, gold = map(list, zip(*read_scored_pairs(file), strict=True))
    cosines = (encoder(a) * encoder(b)).sum(dim=1).cpu().numpy()
    return bootstrap_spearman(np.array(gold), cosines)
