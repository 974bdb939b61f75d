"""Precision and recall at every threshold, with intervals, P(same) of a similarity, and a plot of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.isotonic import isotonic_regression

from rankencoder.errors import InputError, LabelWarning, MissingExtraError
from rankencoder.io.storage import damage_named, new_file, read_json, write_json
from rankencoder.labels.same_posterior import Answers, SamePosterior

STORED = "same.json"
"""Where a curve is kept, in the folder of its model or index."""

_LEVEL = 0.95  # posterior level of a promise that is kept 9 times in 10: choosing is optimistic
_SUPPORT = 10  # answers at or above a threshold that may be chosen
_DRAWS = 2000
_WORST = 0.35  # error rate of a labeler whose answers still say something
_LOOKS = {  # label and color in pictures: those of Okabe and Ito, for the color-blind too
    "precision": ("precision", "#0072B2"),
    "recall": ("recall", "#D55E00"),
    "probability": ("P(same)", "#007A5A"),
}
_FORMAT = 1
_ADVICE = "delete it, or fit a threshold again"


@dataclass(frozen=True)
class Band:
    """A value at each threshold, with its 95% interval and lower bound."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    sure: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray) -> Band:
        """Summarize draws of the posterior, ``[draws, thresholds]``."""
        low, high, sure = np.quantile(draws, [0.025, 0.975, 1 - _LEVEL], axis=0)
        return cls(draws.mean(axis=0), low, high, sure)

    def widened(self, other: Band) -> Band:
        """Return the mean of both, with intervals that cover both."""
        low, sure = np.minimum(self.low, other.low), np.minimum(self.sure, other.sure)
        return Band((self.value + other.value) / 2, low, np.maximum(self.high, other.high), sure)


@dataclass(frozen=True)
class ThresholdCurve:
    """Precision, recall and P(same) at every threshold of a model's similarity.

    :param model: The fingerprint of the model that computed the similarities.
    :param name: Its display name.
    :param answers: Number of answers that it is based on.
    :param thresholds: Increasing similarities; precision and recall are of the pairs at or above each.
    :param support: Number of answers at or above each; a threshold with fewer than 10 is never chosen.
    :param probability: P(same) of a pair of this similarity.
    """

    model: str
    name: str
    answers: int
    thresholds: np.ndarray
    support: np.ndarray
    precision: Band
    recall: Band
    probability: Band

    def p_same(self, similarity: Any) -> Any:
        """Return P(same) of a similarity or of several.

        It never falls as the similarity rises (by isotonic regression), and stays the same beyond what was
        labeled.
        """
        middle = self.thresholds + np.diff(self.thresholds[:2]) / 2
        return np.interp(similarity, middle, isotonic_regression(self.probability.value, y_min=0, y_max=1))

    def describe(self, at: int) -> str:
        """Describe precision and recall at a threshold."""
        figures = (("precision", self.precision), ("recall", self.recall))
        said = (f"{name} {b.value[at]:.2f} ({b.low[at]:.2f} to {b.high[at]:.2f})" for name, b in figures)
        return f"similarity {self.thresholds[at]:.4f}: {', '.join(said)}"

    def for_precision(self, wanted: float) -> int | None:
        """Return the lowest threshold with at least this precision, 90% sure; None if there is none."""
        found = np.flatnonzero((self.precision.sure >= wanted) & self._is_supported)
        return int(found[0]) if len(found) else None

    def for_recall(self, wanted: float) -> int | None:
        """Return the highest threshold with at least this recall, 90% sure; None if there is none."""
        found = np.flatnonzero((self.recall.sure >= wanted) & self._is_supported)
        return int(found[-1]) if len(found) else None

    def best_f1(self) -> int:
        """Return the threshold with the highest F1."""
        p, r = self.precision.value, self.recall.value
        return int(np.argmax(2 * p * r / np.maximum(p + r, 1e-12) * self._is_supported))

    def most_precise(self) -> int:
        """Return the threshold with the highest lower bound of precision."""
        return int(np.argmax(self.precision.sure * self._is_supported))

    @property
    def _is_supported(self) -> np.ndarray:
        return np.asarray(self.support >= min(_SUPPORT, self.answers))

    def more_for_precision(self, wanted: float) -> int | None:
        """Estimate how many more answers a promise needs; None if it seems out of reach.

        The interval narrows with the square root of the answers.
        """
        gap = self.precision.value - wanted
        spread = self.precision.value - self.precision.sure
        reachable = (gap > 0.005) & self._is_supported
        if not reachable.any():
            return None
        factor = (spread[reachable] / gap[reachable]).min() ** 2
        return int(np.ceil(self.answers * max(factor - 1, 0) / 10) * 10)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        stored = asdict(self)
        for name in _LOOKS:
            stored[name] = {key: band.round(5).tolist() for key, band in stored[name].items()}
        arrays = {"thresholds": self.thresholds.tolist(), "support": self.support.tolist()}
        return {"format": _FORMAT, **stored, **arrays}

    def save(self, folder: Path) -> None:
        """Store the curve with its model or index."""
        with new_file(folder / STORED) as path:
            write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: Path) -> ThresholdCurve:
        """Read a stored curve."""
        stored = read_json(path, _FORMAT, advice=_ADVICE)
        kinds = (KeyError, TypeError, ValueError, OverflowError)
        with damage_named(path, "a complete threshold curve", *kinds, advice=_ADVICE):
            thresholds = np.array(stored["thresholds"], dtype=np.float64)
            bands = [_read_band(stored[name], len(thresholds)) for name in _LOOKS]
            support = np.array(stored["support"], dtype=np.float64)
            if not np.isfinite([*thresholds, *support]).all() or (support < 0).any():
                raise ValueError("no numbers")
            is_increasing = len(thresholds) > 1 and (np.diff(thresholds) > 0).all()
            if not is_increasing or support.shape != thresholds.shape:
                raise ValueError("no increasing thresholds")
            about = str(stored["model"]), str(stored["name"]), int(stored["answers"])
        return cls(*about, thresholds, support, *bands)


def _read_band(stored: dict[str, Any], size: int) -> Band:
    band = Band(*(np.array(stored[name], dtype=np.float64) for name in ("value", "low", "high", "sure")))
    for values in (band.value, band.low, band.high, band.sure):
        if values.shape != (size,) or not ((values >= 0) & (values <= 1)).all():
            raise ValueError("no shares")
    return band


def stored_curve(folder: Path, fingerprint: Callable[[], str]) -> ThresholdCurve | None:
    """Return the curve in a folder; None if there is none or, with a warning, if it is another model's.

    :param fingerprint: Returns the model's fingerprint, which takes a moment.
    """
    path = folder / STORED
    if not path.exists():
        return None
    try:
        curve = ThresholdCurve.load(path)
        if curve.model == fingerprint():
            return curve
        why = "was made for another model or rank weight"
    except (InputError, OSError):
        why = "is damaged or of another version"
    message = f"{path} {why}, and is not used: fit a threshold again"
    warnings.warn(message, LabelWarning, stacklevel=2)
    return None


def make_curve(
    answers: Answers,
    model: str,
    name: str,
    *,
    populations: np.ndarray | None = None,
    error_rates: np.ndarray | None = None,
    seed: int = 0,
) -> ThresholdCurve:
    """Return precision, recall and P(same) at each threshold.

    :param populations: Draws of how many pairs are in each bin, ``[draws, bins]``, where that is not known.
    :param error_rates: Draws of how often the labeler errs, ``[draws]``: intervals then hold whether or not
        the answers are corrected for it.
    """
    rng = np.random.default_rng(seed)
    p = SamePosterior(answers).draw(_DRAWS, rng)
    pairs = answers.population
    if populations is not None:
        pairs = populations[rng.integers(len(populations), size=_DRAWS)]
    rest = np.rint(answers.population - answers.asked).clip(0).astype(np.int64)
    same = pairs * p if populations is not None else rng.binomial(rest, p) + answers.yes
    bands = _bands(pairs, same, p)
    if error_rates is not None:
        wrong = rng.choice(error_rates, _DRAWS)[:, None]
        corrected = ((p - wrong) / (1 - 2 * wrong)).clip(0, 1)
        others = _bands(pairs, pairs * corrected, corrected)
        bands = [band.widened(other) for band, other in zip(bands, others, strict=True)]
    support = np.rint(_from_the_top(answers.asked))
    return ThresholdCurve(model, name, int(support[0]), answers.edges[:-1], support, *bands)


def _bands(pairs: np.ndarray, same: np.ndarray, p: np.ndarray) -> list[Band]:
    """Return precision, recall and P(same) at each threshold, given draws of how many pairs are the same."""
    same_above = _from_the_top(same)
    total = same_above[:, :1]
    precision = same_above / np.maximum(_from_the_top(pairs), 1e-12)
    recall = np.where(total > 0, same_above / np.maximum(total, 1e-12), 1.0)  # nothing to miss
    return [Band.of(draws.clip(0, 1)) for draws in (precision, recall, p)]


def _from_the_top(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]


def draw_error_rates(errors: int, checks: int, *, seed: int = 0) -> np.ndarray | None:
    """Draw the labeler's error rate from its posterior; None if no error was seen."""
    if not errors:
        return None
    rng = np.random.default_rng(seed)
    return np.minimum(rng.beta(errors + 0.5, max(checks - errors, 0) + 0.5, 1000), _WORST)


def draw_curve(curve: ThresholdCurve, at: int | None, path: Path) -> None:
    """Draw precision, recall and P(same), with 95% intervals, as an SVG file."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure  # draws without a window or pyplot
    except ImportError as error:
        raise MissingExtraError("a curve needs matplotlib", "report") from error
    with rc_context({"svg.hashsalt": "rankencoder"}), new_file(path) as temporary:
        figure = Figure(figsize=(6.5, 4), dpi=100, layout="constrained")
        axes = figure.add_subplot()
        for name, (label, color) in _LOOKS.items():
            band = getattr(curve, name)
            axes.plot(curve.thresholds, band.value, color=color, label=label, gid=name)
            axes.fill_between(curve.thresholds, band.low, band.high, color=color, alpha=0.15, linewidth=0)
        if at is not None:
            axes.axvline(curve.thresholds[at], color="0.3", linestyle="--", linewidth=1, gid="threshold")
        axes.set(xlabel="threshold (similarity)", ylabel="share", ylim=(0, 1.02))
        axes.set_title(f"{curve.answers} answers, 95% intervals", fontsize=11)
        axes.grid(color="0.9")
        axes.legend(frameon=False)
        figure.savefig(temporary, format="svg", metadata={"Date": None})
