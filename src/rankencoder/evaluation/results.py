"""Results on disk: one JSON file per model, with everything needed to compare and trace it."""

from __future__ import annotations

import copy
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.errors import InputError
from rankencoder.evaluation.sts_data import SEVEN
from rankencoder.fingerprints import digest
from rankencoder.io.files import file_name
from rankencoder.io.storage import new_file, read_json
from rankencoder.provenance import provenance

if TYPE_CHECKING:
    from rankencoder.evaluation.sts_data import PairSet
    from rankencoder.evaluation.subjects import Model

FORMAT = "rankencoder-evaluation-1"
Result = dict[str, Any]


def make_result(model: Model, sets: Sequence[PairSet], sections: dict[str, Any]) -> Result:
    """Return what was measured, of which model, on which data, by which software, when."""
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
        "made": dict.fromkeys(sections, made),  # later ones may be added
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
    }


def write_result(folder: Path, result: Result) -> Path:
    """Write a result into a folder, together with what was measured of the same model before."""
    path = folder / f"{file_name(result['model']['label'])}-{result['model']['fingerprint'][:8]}.json"
    if path.exists():
        try:
            result = add_result(read_result(path), result)
        except (AttributeError, KeyError, TypeError, ValueError):  # also what no check foresaw
            path.rename(path.with_suffix(".damaged"))
    with new_file(path) as new:
        new.write_text(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path


def add_result(earlier: Result, later: Result) -> Result:
    """Return a later result with what an earlier one of the same model has beyond it.

    Sets that are not new stay; every other section is replaced as a whole.
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
    """Say whether a file in a folder of results is one, or looks as if it had been one."""
    with open(file, "rb") as opened:
        return FORMAT.encode() in opened.read(200)


def read_result(file: Path) -> Result:
    """Read one result."""
    result = read_json(file)
    if result.get("format") != FORMAT:
        raise InputError(f"{file} is not a result of an evaluation (format {result.get('format')!r})")
    return result
