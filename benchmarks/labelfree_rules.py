"""Find a rule that chooses weights without labels as well as STS-B dev, from what `labelfree.py` wrote.

A rule sees the looks of a run and names one of them. Its regret is what the best look scores more on STS-B
dev, in points. A family is a backbone × a method; rules are found on all families but one, and tested on it::

    python benchmarks/labelfree_rules.py results/labelfree

`labelfree_table.py` has the chosen rule beside last weights, also on the seven sets of STS.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
from labelfree import DEV, ROBUST
from scipy.stats import rankdata

WORST = 0.5  # of the largest regret, beside the mean one, when a rule is found

Curve = np.ndarray
Rule = Callable[["Run"], float]  # the dev score of what it chooses


@dataclass
class Run:
    """One training: at each look its scores and proxies, and what averages of the weights scored."""

    name: str
    seed: int
    backbone: str
    steps: np.ndarray
    scores: Curve  # what is to be as high as possible, in points
    proxies: dict[str, Curve]
    averages: dict[str, float]
    tests: Curve = field(default_factory=lambda: np.empty(0))  # AVG, by which nothing is chosen
    cosines: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """Backbone and method, whatever its settings."""
        return f"{self.backbone} {self.name.partition('-')[0]}"

    @property
    def kind(self) -> str:
        """Backbone, method and settings, whatever the seed."""
        return f"{self.backbone} {self.name}"

    @classmethod
    def read(cls, path: Path, judges: list[str]) -> Run:
        """Read a run, with the cosines beside it.

        :param judges: Names of dev sets, whose mean is the score.
        """
        found = json.loads(path.read_text())
        looks = [look for look in found["looks"] if "step" in look]
        scores = {
            look["name"]: 100 * float(np.mean([look["dev"][name] for name in judges]))
            for look in found["looks"]
        }
        names = [name for name in looks[0]["proxies"] if all(name in look["proxies"] for look in looks)]
        cosines = {}
        if path.with_suffix(".npz").exists():
            with np.load(path.with_suffix(".npz"), allow_pickle=False) as tables:
                cosines = {
                    pairs: tables[pairs][: len(looks)].astype(np.float64) for pairs in ("gram", "near")
                }
        return cls(
            name=found["name"],
            seed=found["seed"],
            backbone=found["group"],
            steps=np.array([look["step"] for look in looks]),
            scores=np.array([scores[look["name"]] for look in looks]),
            proxies={name: np.array([look["proxies"][name] for look in looks]) for name in names},
            averages={look["name"]: scores[look["name"]] for look in found["looks"] if "step" not in look},
            tests=np.array([100 * look.get("AVG", np.nan) for look in looks]),
            cosines=cosines,
        )


# -- agreement of cosines: within a run, and between runs


def agreement(a: np.ndarray, b: np.ndarray) -> Curve:
    """Return Spearman's correlation of each row of one table with the same row (or the only one) of another.

    >>> agreement(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]), np.array([[1.0, 5.0, 9.0]])).tolist()
    [1.0, -1.0]
    """
    ranks = [rankdata(table, axis=1) for table in (a, b)]
    x, y = (table - table.mean(1, keepdims=True) for table in ranks)
    return np.asarray((x * y).sum(1) / np.sqrt((x**2).sum(1) * (y**2).sum(1)))


def standardised(table: np.ndarray) -> np.ndarray:
    """Return rows of mean 0 and variance 1."""
    return np.asarray((table - table.mean(1, keepdims=True)) / table.std(1, keepdims=True))


def add_agreements(runs: list[Run]) -> None:
    """Add to each run's proxies how its cosines agree with earlier ones, other seeds and other methods."""
    for run in (run for run in runs if run.cosines):
        others = [r for r in runs if r.cosines and r.backbone == run.backbone and r is not run]
        for pairs, table in run.cosines.items():
            rows = standardised(table)
            sums = np.cumsum(rows, axis=0)
            before = np.concatenate([rows[:1], sums[:-1]])
            found = {
                "start": agreement(table, table[:1]),
                "previous": agreement(table, np.concatenate([table[:1], table[:-1]])),
                "before": agreement(table, before),
                "all looks": agreement(table, sums[-1:]),
                "last": agreement(table, table[-1:]),
            }
            seeds = [o for o in others if o.name == run.name and len(o.steps) == len(run.steps)]
            if seeds:
                found["seeds"] = np.mean([agreement(table, o.cosines[pairs]) for o in seeds], axis=0)
            methods = [o for o in others if o.family != run.family and o.seed == run.seed]
            if methods:
                last = [standardised(o.cosines[pairs][-1:]) for o in methods]
                middle = [standardised(o.cosines[pairs][1:].mean(0, keepdims=True)) for o in methods]
                found["methods"] = agreement(table, np.sum(last, axis=0))
                found["methods' means"] = agreement(table, np.sum(middle, axis=0))
            run.proxies |= {f"agrees with {what}, {pairs}": curve for what, curve in found.items()}


# -- rules


def z(curve: Curve) -> Curve:
    """Return a curve with mean 0 and variance 1 over the looks of its run."""
    return np.asarray((curve - curve.mean()) / (curve.std() or 1.0))


def smooth(curve: Curve) -> Curve:
    """Return the mean of each look and its neighbors.

    >>> smooth(np.array([0.0, 3.0, 0.0, 3.0])).tolist()
    [1.5, 1.0, 2.0, 1.5]
    """
    padded = np.convolve(curve, np.ones(3), "same")
    return padded / np.convolve(np.ones_like(curve), np.ones(3), "same")


def stop(curve: Curve, patience: int) -> int:
    """Return the best look before so many without a better one.

    >>> stop(np.array([1.0, 2.0, 1.0, 1.0, 3.0]), 2), stop(np.array([1.0, 2.0, 1.0, 1.0, 3.0]), 3)
    (1, 4)
    """
    best = 0
    for i, value in enumerate(curve):
        if value > curve[best]:
            best = i
        elif i - best >= patience:
            break
    return best


def reached(curve: Curve, share: float) -> int:
    """Return the first look that has so much of what a curve gains between start and its highest point.

    >>> reached(np.array([0.0, 6.0, 9.0, 10.0]), 0.9)
    2
    """
    return int(np.argmax(curve >= curve[0] + share * (curve.max() - curve[0])))


def beyond(curve: Curve, value: float) -> int:
    """Return the first look whose proxy is at least so large, or the last one.

    >>> beyond(np.array([0.0, 6.0, 9.0]), 5.0), beyond(np.array([0.0, 6.0, 9.0]), 10.0)
    (1, 2)
    """
    return int(np.argmax(curve >= value)) if curve.max() >= value else len(curve) - 1


def bend(curve: Curve) -> int:
    """Return the look that is farthest above the line from the start to the end.

    >>> bend(np.array([0.0, 6.0, 9.0, 10.0]))
    1
    """
    return int(np.argmax(curve - np.linspace(curve[0], curve[-1], len(curve))))


def signed(run: Run, proxy: str) -> Curve:
    """Return a proxy as something to be as high as possible: "-" in front of its name turns it over."""
    return -run.proxies[proxy[1:]] if proxy.startswith("-") else run.proxies[proxy]


def choose(pick: Callable[[Curve], int], *proxies: str) -> Rule:
    """Return a rule that picks a look by the sum of some proxies, each on its scale in the run."""

    def rule(run: Run) -> float:
        curves = [z(signed(run, name)) for name in proxies]
        return float(run.scores[pick(np.sum(curves, axis=0))])

    return rule


def choose_beyond(proxy: str, value: float) -> Rule:
    """Return the rule of `beyond`."""
    return lambda run: float(run.scores[beyond(signed(run, proxy), value)])


def choose_at(share: float) -> Rule:
    """Return a rule that takes the look after some share of the steps."""
    return lambda run: float(run.scores[round(share * (len(run.scores) - 1))])


def best(curve: Curve) -> int:
    """Return the look with the highest value."""
    return int(np.argmax(curve))


def single_rules(proxy: str, runs: list[Run]) -> dict[str, dict[str, Rule]]:
    """Return the rules that look at one proxy."""
    values = np.concatenate([signed(run, proxy)[1:] for run in runs])
    thresholds = np.quantile(values, np.linspace(0.05, 0.95, 13)).tolist()
    gains = {share: choose(partial(reached, share=share), proxy) for share in (0.5, 0.7, 0.8, 0.9, 0.95)}
    stops = {patience: choose(partial(stop, patience=patience), proxy) for patience in (1, 2, 3)}
    return {
        "best": {f"best {proxy}": choose(best, proxy)},
        "smoothed": {f"best {proxy}, smoothed": choose(lambda curve: best(smooth(curve)), proxy)},
        "patience": {f"{proxy}, patience {patience}": rule for patience, rule in stops.items()},
        "reached": {f"{share:.0%} of the gain in {proxy}": rule for share, rule in gains.items()},
        "beyond": {f"{proxy} beyond {value:.4g}": choose_beyond(proxy, value) for value in thresholds},
        "bend": {f"bend of {proxy}": choose(bend, proxy)},
    }


def make_rules(runs: list[Run]) -> dict[str, dict[str, Rule]]:
    """Return all rules, in classes."""
    finite = ({name for name, curve in run.proxies.items() if np.isfinite(curve).all()} for run in runs)
    shared = sorted(set.intersection(*finite))
    proxies = shared + [f"-{name}" for name in shared]
    averages = sorted(set.intersection(*(set(run.averages) for run in runs)))
    found: dict[str, dict[str, Rule]] = {
        "fixed": {f"at {share:.0%}": choose_at(share) for share in (0, 0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 1)},
        "average": {name: partial(lambda name, run: run.averages[name], name) for name in averages},
    }
    for proxy in proxies:
        for name, rules in single_rules(proxy, runs).items():
            found.setdefault(name, {}).update(rules)
    pairs = [(a, b) for a, b in combinations(proxies, 2) if a != f"-{b}" and b != f"-{a}"]
    return {**found, "two": {f"best {a} + {b}": choose(best, a, b) for a, b in pairs}}


# -- regret


def regrets(rules: Mapping[str, Rule], runs: list[Run]) -> dict[str, Curve]:
    """Return the regret of each rule in each run."""
    return {name: np.array([run.scores.max() - rule(run) for run in runs]) for name, rule in rules.items()}


def cost(regret: Curve) -> float:
    """Return what makes a rule bad: its mean regret, and its largest one."""
    return float(regret.mean() + WORST * regret.max())


def by_kind(regret: Curve, runs: list[Run], kinds: Iterable[str]) -> list[float]:
    """Return the mean regret in each kind of run."""
    return [float(np.mean([r for r, run in zip(regret, runs, strict=True) if run.kind == k])) for k in kinds]


def leave_out(found: Mapping[str, Curve], runs: list[Run]) -> tuple[Curve, list[str]]:
    """Return the regret in each run of the rule that is best on other families, and which these were."""
    held, chosen = np.zeros(len(runs)), []
    for family in sorted({run.family for run in runs}):
        out = np.array([run.family == family for run in runs])
        name = min(found, key=lambda name: cost(found[name][~out]))
        held[out] = found[name][out]
        chosen.append(name)
    return held, chosen


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def show(found: Mapping[str, Curve], runs: list[Run], names: Iterable[str]) -> str:
    """Return the regret of some rules as a table."""
    kinds = sorted({run.kind for run in runs})
    rows = [
        [name, *(f"{value:.2f}" for value in (found[name].mean(), found[name].max())),
         *(f"{value:.2f}" for value in by_kind(found[name], runs, kinds))]
        for name in names
    ]  # fmt: skip
    return table(["rule", "mean", "worst", *kinds], rows)


def show_runs(runs: list[Run]) -> str:
    """Return what is to be gained: start, best look and last weights of each kind of run."""
    rows = []
    for kind in sorted({run.kind for run in runs}):
        of = [run for run in runs if run.kind == kind]
        best = [int(np.argmax(run.scores)) for run in of]
        figures = [[run.scores[0], run.scores.max(), run.scores[-1]] for run in of]
        where = ", ".join(f"{i / (len(run.scores) - 1):.0%}" for i, run in zip(best, of, strict=True))
        rows.append([kind, *(f"{value:.2f}" for value in np.mean(figures, axis=0)), where])
    return table(["run", "start", "best look", "last weights", "best at"], rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--judges", nargs="+", default=["stsb"], choices=DEV)
    parser.add_argument("--top", type=int, default=8, help="rules of each class to show")
    options = parser.parse_args()
    files = [file for folder in options.folders for file in sorted(folder.rglob("*.json"))]
    every = [Run.read(file, options.judges) for file in files]
    add_agreements(every)
    runs = [run for run in every if run.name not in ROBUST]
    print(f"{len(runs)} runs. STS-B dev:\n\n{show_runs(every)}\n")
    everything: dict[str, Curve] = {}
    for name, rules in make_rules(runs).items():
        found = regrets(rules, runs)
        everything |= found
        chosen = sorted(found, key=lambda rule: cost(found[rule]))[: options.top]
        print(f"### {name}\n\n{show(found, runs, chosen)}\n")
        if found and len({run.family for run in runs}) > 1:
            held, names = leave_out(found, runs)
            about = f"mean {held.mean():.2f}, worst {held.max():.2f}; chosen: {', '.join(sorted(set(names)))}"
            print(f"On families left out: {about}\n")
    chosen = sorted(everything, key=lambda rule: cost(everything[rule]))[:25]
    print(f"### the best of all\n\n{show(everything, runs, chosen)}")


if __name__ == "__main__":
    main()
