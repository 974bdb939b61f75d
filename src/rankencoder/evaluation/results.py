"""Results: one JSON file per model, with everything needed to trace it; and rows that compare them."""

from __future__ import annotations

import copy
import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.evaluation.pair_metrics import YES_NO, metric_for
from rankencoder.evaluation.statistics import BootstrapScores, mean_gain, set_seed
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.fingerprints import digest
from rankencoder.io.files import file_name
from rankencoder.io.storage import new_file, read_json
from rankencoder.provenance import provenance

if TYPE_CHECKING:
    from rankencoder.evaluation.statistics import Interval
    from rankencoder.evaluation.sts_data import PairSet
    from rankencoder.evaluation.subjects import Model

FORMAT = "rankencoder-evaluation-1"
Result = dict[str, Any]


def make_result(model: Model, sets: Sequence[PairSet], sections: dict[str, Any]) -> Result:
    """Return a result: the measurements, with their model, data, software and time."""
    subjects = []
    for subject in model.subjects:
        about: dict[str, Any] = {"role": subject.role, "encoder": subject.encoder.name}
        about["fingerprint"] = subject.encoder.fingerprint()
        about["backend"] = asdict(subject.encoder.backend)
        about["dimension"] = subject.encoder.dimension
        if subject.form is not None:
            about["form"] = {"name": subject.form.name, "settings": subject.form.config()}
            about["rank_weight"] = subject.rank_weight
            about["reference"] = {"size": len(subject.sentences), "fingerprint": digest(subject.sentences)}
        subjects.append(about)
    made = {
        "command": shlex.join(sys.argv),
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **provenance(),
    }
    return {
        "format": FORMAT,
        "model": {
            "label": model.label,
            "kind": model.kind,
            "path": model.path,
            "fingerprint": model.fingerprint,
            "group": model.group,
            "seed": model.seed,
            "config": model.record.get("config"),
            "subjects": subjects,
        },
        **made,
        "data": {pair_set.name: _about_set(pair_set) for pair_set in sets},
        **sections,
        "made": dict.fromkeys(sections, made),  # later sections may be added
    }


def _about_set(pair_set: PairSet) -> dict[str, Any]:
    return {
        "pairs": len(pair_set.pairs),
        "source": pair_set.source,
        "fingerprint": pair_set.fingerprint,
        "scale": list(pair_set.scale),
        "notes": list(pair_set.notes),
        "subsets": {name: len(pairs) for name, pairs in pair_set.subsets.items()},
        "gold": pair_set.gold.tolist(),
        **({"weights": pair_set.weights.tolist()} if (pair_set.weights != 1).any() else {}),
    }


def write_result(folder: Path, result: Result) -> Path:
    """Write a result into a folder, merged with earlier measurements of the same model."""
    path = folder / f"{file_name(result['model']['label'])}-{result['model']['fingerprint'][:8]}.json"
    if path.exists():
        try:
            result = add_result(read_result(path), result)
        except (AttributeError, KeyError, TypeError, ValueError):  # errors that no check foresaw
            path.rename(path.with_suffix(".damaged"))
    with new_file(path) as new:
        new.write_text(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path


def add_result(earlier: Result, later: Result) -> Result:
    """Merge a later result of a model into an earlier one.

    Earlier sets are kept unless measured again; every other section is replaced.
    """
    later = copy.deepcopy(later)
    result = {**earlier, **later}
    for section in ("data", "made"):  # by set or section
        if section in result:
            result[section] = {**earlier.get(section, {}), **later.get(section, {})}
    if "sts" in earlier and "sts" in later:
        for name, system in later["sts"].items():
            for part in ("scores", "similarities"):
                system[part] = {**earlier["sts"].get(name, {}).get(part, {}), **system[part]}
            system["AVG"] = {"all": average(system["scores"])}
    return result


def average(scores: dict[str, dict[str, Any]]) -> float | None:
    """Return the mean over the seven sets, each rounded as in the field's tables; None if one is missing."""
    if not all(name in scores for name in SEVEN):
        return None
    return float(np.mean([round(scores[name]["all"], 2) for name in SEVEN]))


def read_results(paths: Iterable[str | Path]) -> list[Result]:
    """Read results, from files or folders of them."""
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            files += [file for file in sorted(path.glob("*.json")) if _is_ours(file)]
        elif path.exists():
            files.append(path)
        else:
            raise InputError(f"no such file or folder: {path}")
    found = [read_result(file) for file in files]
    if not found:
        raise InputError("no results: evaluate a model first")
    return found


def _is_ours(file: Path) -> bool:
    """Whether a JSON file in a folder is a result, even a damaged one."""
    with open(file, "rb") as opened:
        return FORMAT.encode() in opened.read(200)


def read_result(file: Path) -> Result:
    """Read one result."""
    result = read_json(file)
    if result.get("format") != FORMAT:
        raise InputError(f"{file} is not a result of an evaluation (format {result.get('format')!r})")
    return result


@dataclass(frozen=True)
class Row:
    """A system of one model, or the same system of several runs of one configuration.

    :param values: The score ×100 of each run, by set; "AVG" if all seven are present.
    :param weights: The pairs' weights, of sets that have them.
    :param yes_no: Further metrics of sets with yes/no labels (see `yes_no_figures`), by run.
    """

    label: str
    system: str
    kind: str
    seeds: tuple[int | None, ...]
    values: dict[str, list[float]]
    similarities: dict[str, np.ndarray]
    golds: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]
    yes_no: dict[str, list[dict[str, Any]]]
    _bootstrapped: dict[str, BootstrapScores] = field(default_factory=dict)

    def mean(self, name: str) -> float:
        """Return the mean over runs."""
        return float(np.mean(self.values[name]))

    def std(self, name: str) -> float | None:
        """Return the sample standard deviation over runs, if there are several."""
        return float(np.std(self.values[name], ddof=1)) if len(self.values[name]) > 1 else None

    def bootstrap(self, name: str) -> BootstrapScores:
        """Return the score ×100 on a set, in each bootstrap sample and in each run."""
        if name not in self._bootstrapped:
            gold = self.golds[name]
            of_pairs = gold, self.similarities[name], self.weights.get(name)
            found = metric_for(gold).bootstrap(*of_pairs, seed=set_seed(name))
            self._bootstrapped[name] = BootstrapScores(100 * found.samples, 100 * found.runs)
        return self._bootstrapped[name]

    def gain_over(self, base: Row, names: Sequence[str]) -> Interval | None:
        """Return the mean gain over another row on some sets, if both were scored on the same pairs."""
        for name in names:
            ours, theirs = self.golds.get(name), base.golds.get(name)
            if ours is None or theirs is None or not np.array_equal(ours, theirs):
                return None
        gains = [(base.bootstrap(name), self.bootstrap(name)) for name in names]
        return mean_gain(gains, same_runs=self.seeds == base.seeds) if gains else None


def rows(results: Sequence[Result]) -> list[Row]:
    """Return the scores of all systems, with runs of one configuration as one row."""
    found = []
    for label, members in grouped(results).items():
        first, data = members[0], members[0]["data"]
        if not first.get("sts"):
            continue
        seeds = tuple(member["model"]["seed"] for member in members)
        for name, system in first["sts"].items():
            same = [member["sts"][name] for member in members if name in member["sts"]]
            shared = [s for s in system["scores"] if all(s in other["scores"] for other in same)]
            values = {s: [other["scores"][s]["all"] for other in same] for s in shared}
            if all(other["AVG"]["all"] is not None for other in same):
                values["AVG"] = [other["AVG"]["all"] for other in same]
            similarities = {s: np.array([other["similarities"][s] for other in same]) for s in shared}
            golds, weights = (
                {s: np.array(data[s][key]) for s in shared if key in data[s]} for key in ("gold", "weights")
            )
            yes_no = {
                s: [other["scores"][s]["yes_no"] for other in same]
                for s in shared
                if metric_for(golds[s]) is YES_NO
            }
            of_pairs = similarities, golds, weights
            found.append(Row(label, name, system["kind"], seeds, values, *of_pairs, yes_no))
    return found


def grouped(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Group results by label, with runs of one configuration on the same data together.

    Of several results of one model, the last counts. Results without scores form their own groups.
    """
    groups: dict[str, list[Result]] = {}
    for result in {result["model"]["fingerprint"]: result for result in results}.values():
        data = [f"{name} {about['fingerprint']}" for name, about in result["data"].items()]
        scored = "scored" if result.get("sts") else "not scored"
        groups.setdefault(digest([result["model"]["group"], scored, *sorted(data)]), []).append(result)
    return dict(zip(_labels(list(groups.values())), groups.values(), strict=True))


def _labels(groups: list[list[Result]]) -> list[str]:
    """Return the label of each group: its models' label or, where two share it, the full path."""
    labels = [_group_label(members) for members in groups]
    models = [members[0]["model"] for members in groups]
    for others in (
        [model["path"] for model in models],
        [f"{model['path']} {model['fingerprint'][:8]}" for model in models],
    ):
        labels = [o if labels.count(label) > 1 else label for label, o in zip(labels, others, strict=True)]
    return labels


def _group_label(members: Sequence[Result]) -> str:
    labels: list[str] = [member["model"]["label"] for member in members]
    stem = os.path.commonprefix(labels).rstrip("-_. ") or labels[0]  # noqa: RUF071 (no paths)
    return labels[0] if len(labels) == 1 else f"{stem} ({len(members)} runs)"


def averaged_sets(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the sets that a gain is averaged over, by display name: the field's test sets, the user's own.

    >>> averaged_sets(["STS12", "STS-B dev", "mine"])
    {'STS12': ['STS12'], 'mine': ['mine']}
    """
    tests = [name for name in SEVEN if name in names]
    own = [name for name in names if name not in (*SEVEN, *DEV)]
    found = {}
    if tests:
        found["the seven test sets" if tests == list(SEVEN) else _called(tests)] = tests
    if own:
        found[_called(own)] = own
    return found or {_called(list(names)): list(names)}


def _called(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"the {len(names)} sets {', '.join(names)}"
