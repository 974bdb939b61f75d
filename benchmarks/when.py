"""Look for a rule that says, without labels, which similarity to use: cosine, ranks, a blend or a power.

It is made of the profiles in ``results/runs`` (`experiments.py` measures them) and judged on encoders of
families (backbone × method) that it was not fitted on::

    python benchmarks/when.py

prints a table and writes ``results/when.json``. Families count alike, however many encoders they have.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from result_runs import RESULTS, encoders, gain_of
from result_runs import read as read_runs

from rankencoder.evaluation.halves import HARDLY, LEAST_SHARE
from rankencoder.evaluation.halves import POWERS as HALVES

POWERS = tuple(round(-0.5 + 0.125 * i, 3) for i in range(9))
CHOICES = (
    "cosine",
    *(f"centered {power:+g}" for power in POWERS),
    *(f"plain {power:+g}" for power in POWERS if power),
    *("blend 0.05", "blend 0.1", "blend 0.2", "blend 0.3", "blend 0.5", "ranks"),
)
"""What a rule may choose from."""

COSINE = CHOICES.index("cosine")
SAFE = ("cosine", "centered -0.25")
"""What a rule has to beat."""

FEATURES = (
    "uniformity",
    "hubness",
    "first_share",
    "first_ten_share",
    "mean_norm",
    "relative_rank",
    "decay",
    "cosine_deviation",
    "cosine_skewness",
    "alignment_dropped",
    "alignment_halves",
)
"""Of those in a profile, the ones that mean the same whatever the dimension."""

PROXIES = ("dropped", "halves")
ADVICE = "halves, guarded"
"""The rule that `rankencoder tune` and the report go by."""

HARM = 0.5
_FEWEST_FAMILIES = 4
_RIDGE = 5.0


@dataclass(frozen=True)
class Encoders:
    """Encoders to learn from, or to be judged on.

    :param families: ``[n]`` names.
    :param features: ``[n, features]``.
    :param proxies: ``[n, proxies, choices]``: how well a similarity agrees with a little STS without labels.
    :param gains: ``[n, choices]``: AVG less that of the plain cosine.
    """

    names: list[str]
    families: np.ndarray
    features: np.ndarray
    proxies: np.ndarray
    gains: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    def only(self, rows: np.ndarray) -> Encoders:
        """Return some of them."""
        names = [name for name, row in zip(self.names, rows, strict=True) if row]
        parts = (self.families, self.features, self.proxies, self.gains)
        return Encoders(names, *(part[rows] for part in parts))

    def weights(self) -> np.ndarray:
        """Return a weight for each encoder, so that families count alike."""
        _, place, number = np.unique(self.families, return_inverse=True, return_counts=True)
        return np.asarray(1 / number[place] / len(number))


Chooser = Callable[[Encoders], np.ndarray]
"""Returns the number of the choice for each encoder."""

Rule = Callable[[Encoders], Chooser]
"""Learns a chooser."""


def always(name: str) -> Rule:
    """Return the rule that chooses one similarity, whatever the encoder."""
    choice = CHOICES.index(name)
    return lambda _: lambda found: np.full(len(found), choice)


def best_fixed(known: Encoders) -> Chooser:
    """Learn which one similarity is best on average."""
    choice = int((known.weights() @ known.gains).argmax())
    return lambda found: np.full(len(found), choice)


@dataclass(frozen=True)
class Threshold:
    """One similarity where a feature is above a threshold, another where it is not."""

    feature: str
    threshold: float
    above: str
    below: str

    def __call__(self, found: Encoders) -> np.ndarray:
        """Choose."""
        values = found.features[:, FEATURES.index(self.feature)]
        return np.where(values > self.threshold, CHOICES.index(self.above), CHOICES.index(self.below))


def threshold(known: Encoders) -> Threshold:
    """Learn the feature, the threshold and the two similarities that gain most; two families on each side."""
    weights = known.weights()[:, None] * known.gains
    best, found = -np.inf, Threshold(FEATURES[0], np.inf, "cosine", CHOICES[int(weights.sum(0).argmax())])
    for i, feature in enumerate(FEATURES):
        values = np.unique(known.features[:, i])
        for cut in (values[1:] + values[:-1]) / 2:
            above = known.features[:, i] > cut
            if min(len(set(known.families[side])) for side in (above, ~above)) < 2:
                continue
            gains = [weights[side].sum(axis=0) for side in (above, ~above)]
            total = sum(float(gain.max()) for gain in gains)
            if total > best:
                first, second = (CHOICES[int(gain.argmax())] for gain in gains)
                best, found = total, Threshold(feature, float(cut), first, second)
    return found


def _standard(known: Encoders) -> Callable[[np.ndarray], np.ndarray]:
    mean, deviation = known.features.mean(axis=0), known.features.std(axis=0) + 1e-9
    return lambda features: np.asarray((features - mean) / deviation)


def ridge(known: Encoders) -> Chooser:
    """Learn every similarity's gain as a linear function of the features; choose the largest."""
    standard = _standard(known)
    x, weights = standard(known.features), len(known) * known.weights()[:, None]
    mean = (weights * known.gains).mean(axis=0)
    matrix = x.T @ (weights * x) + _RIDGE * np.eye(x.shape[1])
    slopes = np.linalg.solve(matrix, x.T @ (weights * (known.gains - mean)))
    return lambda found: np.asarray((mean + standard(found.features) @ slopes).argmax(axis=1))


def nearest(known: Encoders, k: int = 3) -> Chooser:
    """Choose what is best for the k encoders with the most similar features."""
    standard = _standard(known)
    x = standard(known.features)

    def choose(found: Encoders) -> np.ndarray:
        distances = ((standard(found.features)[:, None] - x) ** 2).sum(axis=2)
        near = np.argsort(distances, axis=1)[:, :k]
        return np.asarray(known.gains[near].mean(axis=1).argmax(axis=1))

    return choose


def proxy(name: str) -> Rule:
    """Return the rule that chooses what does best on a little STS without labels; nothing is learnt."""
    return lambda _: lambda found: np.asarray(found.proxies[:, PROXIES.index(name)].argmax(axis=1))


def halves(_: Encoders) -> Chooser:
    """Take the centered power, none above 0, that knows halves of a sentence best; cosine if it hardly helps.

    What it may choose from and what "hardly" means was decided when only encoders of ../shared/backbone,
    SmolLM2 and all-MiniLM-L6-v2 were known: encoders that came later are its test.
    """
    menu = np.array([CHOICES.index(f"centered {power:+g}") for power in HALVES])

    def choose(found: Encoders) -> np.ndarray:
        told = found.proxies[:, PROXIES.index("halves")]
        best = menu[told[:, menu].argmax(axis=1)]
        gained = told[np.arange(len(found)), best] - told[:, COSINE]
        return np.where(gained > HARDLY, best, COSINE)

    return choose


def guard(known: Encoders) -> float:
    """Learn below which share of the variance in the first ten directions it is better not to heed halves."""
    shares = known.features[:, FEATURES.index("first_ten_share")]
    gains = known.weights() * known.gains[np.arange(len(known)), halves(known)(known)]
    values = np.unique(shares)
    cuts = [0.0, *(values[1:] + values[:-1]) / 2]
    return float(max(cuts, key=lambda cut: float(gains[shares > cut].sum())))


def guarded(known: Encoders) -> Chooser:
    """Go by halves where the first directions hold much, and by the cosine elsewhere."""
    cut = guard(known)

    def choose(found: Encoders) -> np.ndarray:
        much = found.features[:, FEATURES.index("first_ten_share")] > cut
        return np.where(much, halves(known)(found), COSINE)

    return choose


def proxy_gain(known: Encoders) -> Chooser:
    """Learn each similarity's gain from its mean gain and from what it gains without labels."""

    def relative(found: Encoders) -> np.ndarray:
        return np.asarray(found.proxies - found.proxies[:, :, COSINE, None])

    x, weights = relative(known), known.weights()
    mean = weights @ known.gains
    centre = np.einsum("n,npc->pc", weights, x)
    a = (x - centre).transpose(0, 2, 1).reshape(-1, len(PROXIES))
    b, w = (known.gains - mean).reshape(-1), np.repeat(weights, len(CHOICES))
    slopes = np.linalg.solve((a.T * w) @ a + 1e-3 * np.eye(len(PROXIES)), (a.T * w) @ b)
    return lambda found: np.asarray(
        (mean + np.einsum("npc,p->nc", relative(found) - centre, slopes)).argmax(axis=1)
    )


FITTED: dict[str, Rule] = {
    "best fixed": best_fixed,
    "threshold": threshold,
    "ridge": ridge,
    "nearest three": nearest,
    "proxy: words dropped": proxy("dropped"),
    "proxy: halves": proxy("halves"),
    "halves, cautious": halves,
    "halves, guarded": guarded,
    "proxies, fitted": proxy_gain,
}


def selected(known: Encoders) -> Chooser:
    """Choose among all rules, the safe ones too, by their gain on families left out; then fit that one."""
    rules = {**{f"always {name}": always(name) for name in SAFE}, **FITTED}
    gains = {name: float(known.weights() @ left_out(rule, known)[1]) for name, rule in rules.items()}
    return rules[max(gains, key=lambda name: gains[name])](known)


def left_out(
    rule: Rule, encoders: Encoders, together: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return each encoder's choice and gain by a rule that was fitted on the other families.

    :param together: What is left out together in place of families, ``[n]`` names.
    """
    groups = encoders.families if together is None else together
    choices = np.zeros(len(encoders), dtype=int)
    for group in np.unique(groups):
        own = groups == group
        if (~own).any():
            choices[own] = rule(encoders.only(~own))(encoders.only(own))
    return choices, encoders.gains[np.arange(len(encoders)), choices]


def judge(encoders: Encoders) -> dict[str, Any]:
    """Return how every rule does on families that it was not fitted on, and what to make of it."""
    oracle = encoders.gains.max(axis=1)
    rules = {**{f"always {name}": always(name) for name in SAFE}, **FITTED, "selected": selected}
    rows: dict[str, dict[str, Any]] = {}
    by_rule: dict[str, np.ndarray] = {}
    for name, rule in rules.items():
        choices, gains = left_out(rule, encoders)
        by_rule[name] = gains
        rows[name] = {**_row(encoders, gains, oracle), "choices": [CHOICES[i] for i in choices]}
    rows["oracle"] = _row(encoders, oracle, oracle)
    against, advised = (
        {name: interval(encoders, by_rule[rule] - by_rule[f"always {name}"]) for name in SAFE}
        for rule in ("selected", ADVICE)
    )
    strict = on_other_backbones(rules, encoders)
    safe = max(strict.get(f"always {name}", 0.0) for name in SAFE)
    works = all(low > 0 for _, low, _ in against.values()) and strict.get("selected", 0.0) >= safe
    fitted = threshold(encoders)
    return {
        "encoders": encoders.names,
        "families": encoders.families.tolist(),
        "oracle_choices": [CHOICES[i] for i in encoders.gains.argmax(axis=1)],
        "rules": rows,
        "selected_against": against,
        "advice_against": advised,
        "advice_harms": int((by_rule[ADVICE] < -HARM).sum()),
        "left_out_backbones": strict,
        "threshold": vars(fitted),
        "guard": guard(encoders),
        "works": works,
        "verdict": f"{advice_told(encoders, by_rule[ADVICE], advised)} {verdict(against, strict, works)}",
    }


def on_other_backbones(rules: dict[str, Rule], encoders: Encoders) -> dict[str, float]:
    """Return each rule's gain over cosine on backbones that it was not fitted on, if there are several.

    That is the question of whoever comes with another backbone, and harder: families of one are much alike.
    """
    own = np.array([name.split()[0] for name in encoders.families])
    if len(set(own)) < 2:
        return {}
    weights = replace(encoders, families=own).weights()
    return {name: float(weights @ left_out(rule, encoders, own)[1]) for name, rule in rules.items()}


def _row(encoders: Encoders, gains: np.ndarray, oracle: np.ndarray) -> dict[str, float]:
    weights = encoders.weights()
    return {
        "gain": float(weights @ gains),
        "regret": float(weights @ (oracle - gains)),
        "worst": float(gains.min()),
        "harmed": float(weights @ (gains < -HARM)),
    }


def interval(encoders: Encoders, values: np.ndarray, rounds: int = 2000) -> tuple[float, float, float]:
    """Return the mean over families, with a 95% bootstrap interval over families."""
    means = np.array([values[encoders.families == family].mean() for family in np.unique(encoders.families)])
    drawn = np.random.default_rng(0).integers(0, len(means), (rounds, len(means)))
    low, high = np.quantile(means[drawn].mean(axis=1), [0.025, 0.975])
    return float(means.mean()), float(low), float(high)


def advice_told(encoders: Encoders, gains: np.ndarray, against: dict[str, tuple[float, float, float]]) -> str:
    """Summarize in words how the rule behind our advice does on families that it was not fitted on."""
    told = [f"{v:+.2f} ({low:+.2f} to {high:+.2f}) over always {n}" for n, (v, low, high) in against.items()]
    return (
        f'"{ADVICE}", the rule behind our advice, gains {" and ".join(told)}. Of {len(encoders)} encoders it '
        f"improves {(gains > 0).sum()}, leaves {(gains == 0).sum()} unchanged, and costs "
        f"{(gains < -HARM).sum()} more than {HARM:g}, at worst {-gains.min():.1f}."
    )


def verdict(against: dict[str, tuple[float, float, float]], strict: dict[str, float], works: bool) -> str:
    """Summarize in words whether a rule is worth having."""
    told = [f"{v:+.2f} ({low:+.2f} to {high:+.2f}) over always {n}" for n, (v, low, high) in against.items()]
    found = f"On families that it was not fitted on, the selected rule gains {' and '.join(told)} AVG."
    if strict:
        others = [f"always {name} {strict[f'always {name}']:+.2f}" for name in SAFE]
        found += (
            f" On backbones that it was not fitted on, it gains {strict['selected']:+.2f} over cosine"
            f" ({', '.join(others)})."
        )
    if works:
        return f"{found} So there is a rule that is better than any safe choice."
    safe = max(SAFE, key=lambda name: -against[name][0])
    return f"{found} No rule is significantly better than the safe choices; of these, always {safe} is ahead."


def read(folder: Path) -> Encoders:
    """Return what is known of every encoder with a profile."""
    names, families, features, proxies, gains = [], [], [], [], []
    for run, role, found in encoders(read_runs(folder)):
        names.append(f"{run['group']}/{run['name']}-{run['seed']} {role}")
        families.append(run["family"])
        features.append([found["features"][name] for name in FEATURES])
        proxies.append([[found["proxies"][of][name] for name in CHOICES] for of in PROXIES])
        gains.append([gain_of(found, name) for name in CHOICES])
    return Encoders(names, np.array(families), np.array(features), np.array(proxies), np.array(gains))


def table(found: dict[str, Any]) -> str:
    """Return the rules as a table."""
    lines = ["| rule | gain over cosine | regret | worst | harmed |", "| --- | --- | --- | --- | --- |"]
    for name, row in found["rules"].items():
        numbers = f"{row['gain']:+.2f} | {row['regret']:.2f} | {row['worst']:+.2f} | {row['harmed']:.0%}"
        lines.append(f"| {name} | {numbers} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge all rules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=RESULTS / "runs")
    parser.add_argument("--json", type=Path, default=RESULTS / "when.json")
    options = parser.parse_args(arguments)
    encoders = read(options.runs)
    if len(set(encoders.families.tolist())) < _FEWEST_FAMILIES:
        print(f"{len(encoders)} encoders of too few families: nothing can be said. No rule: plain cosine.")
        return
    found = judge(encoders)
    print(f"{len(encoders)} encoders of {len(set(encoders.families.tolist()))} families\n{table(found)}")
    print(found["verdict"])
    strict = ", ".join(f"{name} {value:+.2f}" for name, value in found["left_out_backbones"].items())
    if strict:
        print(f"Gain over cosine on backbones that a rule was not fitted on: {strict}.")
    one = Threshold(**found["threshold"])
    print(
        f"The best threshold: {one.above} where {one.feature} > {one.threshold:.4g}, else {one.below}"
        " (fitted on all; its error is that of 'threshold' above)."
    )
    print(f"Halves are heeded above a share of {found['guard']:.3f}; the advice has {LEAST_SHARE}.")
    options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
