"""`rankencoder duplicates` beside semhash: time, memory, and what each finds by gold labels.

The corpora are the questions of QQP's labelled pairs, and the same among Wikipedia sentences. Both libraries
get the same vectors, made once, so that only the comparing is measured, each time in a process of its own and
in turns. A labelled pair is found if both sentences are kept or removed for the same one. semhash goes into a
folder of its own: ``pip install --target semhash --no-deps semhash==0.5.0 model2vec vicinity usearch numkong
frozendict pyversity``.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from rankencoder.io.storage import write_json
from rankencoder.provenance import provenance
from rankencoder.search.calibration import SENTENCES, Calibration, default_similarity

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
LOWEST, HIGHEST, LEVELS = (
    99.98,
    0.995,
    16,
)  # thresholds to score: from a share of random pairs to a similarity
TARGETS = (0.75, 0.8, 0.85, 0.9)
DEFAULT = 0.9  # semhash's threshold


def main() -> None:
    """Run both libraries on both corpora, and write the figures."""
    options = _options()
    if options.library:
        print(json.dumps(_measure(options)))
        return
    options.work.mkdir(parents=True, exist_ok=True)
    questions = list(dict.fromkeys(text for pair in labelled() for text in pair[1:]))
    result: dict[str, Any] = {"load_before": os.getloadavg()[0], "cores": len(os.sched_getaffinity(0))}
    for size in (options.size, len(questions)):
        texts = list(islice(dict.fromkeys([*questions, *wiki(size)]), size))
        for encoder in options.encoders if size == len(questions) else options.encoders[:1]:
            folder = options.work / f"{encoder.name}-{size}"
            seconds = write_vectors(encoder, texts, folder)
            found = result.setdefault(f"{size} sentences", {}).setdefault(encoder.name, {})
            found |= {"encode_seconds": seconds} | compare(folder, options)
            print(encoder.name, size, json.dumps(found, indent=2), flush=True)
            write_json(options.output, result | {"load_after": os.getloadavg()[0], **provenance()})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoders", type=Path, nargs="*", help="folders; the first also for the large corpus")
    parser.add_argument("--semhash", type=Path, default=Path("semhash"), help="where pip put it")
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("dedup-benchmark"))
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "dedup.json")
    parser.add_argument("--library", help=argparse.SUPPRESS)
    parser.add_argument("--sweep", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def labelled() -> list[tuple[bool, str, str]]:
    """Return the labelled pairs."""
    lines = (DATA / "pairs" / "qqp_dev.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return [(label == "1", a.strip(), b.strip()) for label, a, b in rows]


def wiki(size: int) -> list[str]:
    """Return so many sentences of Wikipedia that can be encoded."""
    with lzma.open(DATA / "wiki" / "wiki1m-part0.txt.xz", "rt", encoding="utf-8") as file:
        return list(islice((line.strip() for line in file if 0 < len(line.strip()) <= 2000), size))


def write_vectors(encoder: Path, texts: list[str], folder: Path) -> float | None:
    """Write texts and vectors, unless they are there, and return how long encoding took."""
    if (folder / "vectors.npy").exists():
        return None
    from rankencoder.model import open_model

    folder.mkdir(exist_ok=True)
    opened = open_model(str(encoder), batch_size=64)
    start = time.perf_counter()
    vectors = opened.encode(texts, progress=True)
    seconds = time.perf_counter() - start
    write_json(folder / "texts.json", texts)
    np.save(folder / "vectors.npy", vectors)
    return round(seconds, 1)


def compare(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run both libraries in turns, and score what they find."""
    runs: dict[str, list[dict[str, Any]]] = {"rankencoder": [], "semhash": []}
    for _ in range(options.repeats):
        for library, done in runs.items():
            done.append(_run(library, folder, options))
    result: dict[str, Any] = {"threshold": DEFAULT}
    for library, done in runs.items():
        times = [run["seconds"] for run in done]
        memory = {name: median(run[name] for run in done) for name in ("peak_mb", "before_mb")}
        result[library] = {"seconds": median(times), "runs": times, **memory, "kept": done[0]["kept"]}
        result[library] |= {"pairs": done[0]["pairs"], **_run(library, folder, options, "--sweep")}
    result["time_ratio"] = result["semhash"]["seconds"] / result["rankencoder"]["seconds"]
    result["exact_pairs_that_semhash_has"] = result["semhash"]["pairs"] / max(
        1, result["rankencoder"]["pairs"]
    )
    return result | {"thresholds": fixed_thresholds(folder)}


def _run(library: str, folder: Path, options: argparse.Namespace, *more: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--library", library, "--work", str(folder)]
    environment = {**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{options.semhash}"}
    out = subprocess.run([*command, *more], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(out.stdout.splitlines()[-1])
    return found


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    """Find duplicates with one library, in this process."""
    texts = json.loads((options.work / "texts.json").read_text(encoding="utf-8"))
    vectors = np.load(options.work / "vectors.npy")
    library = (Rankencoder if options.library == "rankencoder" else Semhash)(texts, vectors)
    before = peak_mb()
    levels = [DEFAULT]
    if options.sweep:  # another process than the one whose memory is measured
        levels = np.linspace(calibrate(vectors).similarity_at(LOWEST), HIGHEST, LEVELS).round(4).tolist()
    start = time.perf_counter()
    library.find(levels[0])
    assigned = library.assigned()
    seconds = time.perf_counter() - start
    if options.sweep:
        return {"by_threshold": score_grid(library, levels)}
    peak = peak_mb()
    return {
        "seconds": round(seconds, 2),
        "peak_mb": peak,
        "before_mb": before,
        "kept": len(set(assigned.values())),
        "pairs": library.pairs(),
    }


def peak_mb() -> int:
    """Return this process's peak memory; that of `resource` begins with the parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1e3)


class Rankencoder:
    """`find_duplicates`, on vectors that are there already."""

    def __init__(self, texts: list[str], vectors: np.ndarray) -> None:
        from rankencoder.search import rank_index  # noqa: F401  (imported before the clock starts)

        self.texts, self._vectors = texts, vectors
        self._rows = {text: row for row, text in enumerate(texts)}

    def find(self, threshold: float) -> None:
        """Find all pairs."""
        from rankencoder import find_duplicates

        self.found = find_duplicates(self.texts, self._encode, threshold=threshold)

    def _encode(self, texts: list[str]) -> np.ndarray:
        return self._vectors[[self._rows.get(text, 0) for text in texts]]

    def assigned(self, threshold: float | None = None) -> dict[str, str]:
        """Return which sentence stays for each."""
        found = self.found if threshold is None else self.found.at(threshold)
        best, _ = found.representatives()
        texts = found.sentences
        return {text: texts[b] if b >= 0 else text for text, b in zip(texts, best.tolist(), strict=True)}

    def pairs(self) -> int:
        """Return how many pairs were found."""
        return len(self.found.pairs)


class Semhash:
    """semhash, on vectors that are there already."""

    def __init__(self, texts: list[str], vectors: np.ndarray) -> None:
        import semhash  # type: ignore[import-not-found]

        self.texts, self._vectors, self._class = texts, vectors, semhash.SemHash

    def find(self, threshold: float) -> None:
        """Build its index, and deduplicate."""
        model: Any = None  # it has the vectors
        index = self._class.from_embeddings(self._vectors, self.texts, model)
        self.found = index.self_deduplicate(threshold)

    def assigned(self, threshold: float | None = None) -> dict[str, str]:
        """Return which sentence stays for each."""
        if threshold is not None:
            self.found.rethreshold(threshold)
        stays = {text: text for text in self.found.selected}
        return stays | {record.record: record.duplicate_of for record in self.found.filtered}

    def pairs(self) -> int:
        """Return how many pairs are among the neighbors that its index returned."""
        _, neighbors, _ = self.found._selection_inputs
        ends = {
            (min(i, j), max(i, j)) for i, (near, _) in enumerate(neighbors) for j in near.tolist() if i != j
        }
        return len(ends)


def score_grid(library: Any, levels: list[float]) -> dict[str, Any]:
    """Return precision and recall at each threshold, and the recall at some precisions."""
    grid = {}
    for threshold in levels:
        stays = library.assigned(threshold)
        together = np.array([stays[a] == stays[b] for _, a, b in labelled()])
        grid[threshold] = score(together)
    return {"grid": grid, "recall_at_precision": recall_at(grid)}


def recall_at(grid: dict[Any, dict[str, float]]) -> dict[str, float]:
    """Return the recall at some precisions, interpolated between thresholds."""
    precision, recall = np.array([(row["precision"], row["recall"]) for row in grid.values()]).T
    rising = np.maximum.accumulate(precision)
    reached = [target for target in TARGETS if rising[0] <= target <= rising[-1]]
    return {str(target): round(float(np.interp(target, rising, recall)), 4) for target in reached}


def score(found: np.ndarray) -> dict[str, float]:
    """Return precision and recall of the labelled pairs that were found."""
    gold = np.array([label for label, _, _ in labelled()])
    precision = float(gold[found].mean()) if found.any() else 1.0
    return {"precision": round(precision, 4), "recall": round(float(found[gold].mean()), 4)}


def calibrate(vectors: np.ndarray) -> Calibration:
    """Measure random pairs as `find_duplicates` does."""
    chosen = np.random.default_rng(0).permutation(len(vectors))[:SENTENCES]
    return Calibration.measure(vectors[chosen], "this corpus")


def fixed_thresholds(folder: Path) -> dict[str, Any]:
    """Return what fixed thresholds and our default give on the labelled pairs, by similarity alone."""
    texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    vectors, rows = np.load(folder / "vectors.npy"), {text: row for row, text in enumerate(texts)}
    a, b = np.array([(rows[a], rows[b]) for _, a, b in labelled()]).T
    similarities = np.einsum("ij,ij->i", vectors[a], vectors[b])
    calibration = calibrate(vectors)
    before = calibration.similarity_at(min(99.9999, calibration.finest))
    levels = {"0.8": 0.8, "0.9 (semhash's default)": 0.9, "99.9999% (our earlier default)": before}
    levels["our default"] = default_similarity(calibration, 2 / len(vectors))
    return {name: {"similarity": round(at, 4), **score(similarities >= at)} for name, at in levels.items()}


if __name__ == "__main__":
    main()
