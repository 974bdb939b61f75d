"""A reference corpus of a million sentences: memory and time to build and to use it, and what a sample keeps.

``rankencoder build`` and ``rankencoder encode`` run in processes of their own, whose peak memory the system
reports. The encoder is MiniLM's word vectors, averaged (384 numbers), as in search.py.

Two stages of sampling: a million sentences are drawn from the corpus, and from these the reference corpus of
n. Their sentences are in the order of their hashes, so the first n are what would be drawn at once. How well
n of them do is told by the rank similarities of STS-B's pairs: their correlation with those over all, and
with people's scores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from result_plots import COLOURS, axes
from search import average_of_word_vectors, run_measured, write_corpus

from rankencoder import RankEncoder
from rankencoder.encoders import Encoder
from rankencoder.evaluation.pairwise import encode_pairs, pair_similarities
from rankencoder.evaluation.statistics import spearman
from rankencoder.evaluation.sts_data import read_sts
from rankencoder.forms import fit_form
from rankencoder.io.storage import read_json, write_json
from rankencoder.provenance import provenance
from rankencoder.reference import Reference

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("RANKENCODER_SHARED", ROOT.parent / "shared"))
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)


def draw(rows: list[dict[str, Any]], file: Path) -> None:
    """Draw how far rank similarities over n sentences are from those over all."""
    part = [row for row in rows if row["with_all"] < 1]
    sizes = [row["n"] for row in part]
    with axes(file, "n, reference sentences", "distance from all of them", "Two-stage sampling") as drawn:
        for name, values, colour in zip(
            ("1 − Spearman", "largest difference"),
            ([1 - row["with_all"] for row in part], [row["largest_error"] for row in part]),
            COLOURS,
            strict=False,
        ):
            drawn.plot(sizes, values, "o-", color=colour, ms=4, lw=1.2, label=name)
        drawn.set_xscale("log")
        drawn.set_yscale("log")


def main() -> None:
    """Build, encode, compare, and write the figures."""
    options = _options()
    work: Path = options.work
    if options.plot:
        draw(read_json(options.output)["two_stages"], ROOT / "docs/images/two-stages.svg")
        return
    if options.quality:
        print(json.dumps(_quality(work, options.sts, options.pairs)))
        return
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "encoder").exists():
        average_of_word_vectors(work / "encoder")
        write_corpus(options.wiki, work, options.size, 2000)
    rankencoder = [sys.executable, "-m", "rankencoder"]
    model = str(work / "model")
    size = ["--size", str(options.size)]
    built: dict[str, Any] = {}
    if not (work / "model").exists():
        command = [*rankencoder, "build", str(work / "encoder"), str(work / "corpus.txt"), "-o", model, *size]
        _, built = run_measured(command)
    queries, vectors = str(work / "queries.txt"), str(work / "vectors.npy")
    _, encoded = run_measured([*rankencoder, "encode", model, queries, "-o", vectors, "--overwrite"])
    out, _ = run_measured(
        [sys.executable, __file__, "--quality", "--work", str(work), "--sts", str(options.sts)]
    )
    info = RankEncoder.load(work / "model")
    result = {
        "references": len(info.reference),
        "build": built,
        "encode 2,000 sentences": encoded,
        "fidelity": asdict(info.fidelity),
        **json.loads(out),
        "cores": len(os.sched_getaffinity(0)),
        **provenance(),
    }
    print(json.dumps(result, indent=2))
    write_json(options.output, result)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wiki", type=Path, default=SHARED / "data" / "wiki")
    parser.add_argument("--sts", type=Path, default=SHARED / "data" / "senteval")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=200, help="of STS-B's test set")
    parser.add_argument("--work", type=Path, default=Path("large-reference"))
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/large-reference.json")
    parser.add_argument(
        "--plot", action="store_true", help="draw the figure of docs/scale.md from the output"
    )
    parser.add_argument("--quality", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _quality(work: Path, sts: Path, number: int) -> dict[str, Any]:
    """Compare the rank similarities over the first n references with those over all."""
    vectors = torch.from_numpy(Reference.load(work / "model" / "reference").vectors)
    pairs = read_sts(sts, ["STS-B"])[0].pairs[:number]
    encoded = encode_pairs(Encoder(work / "encoder", device="cpu"), pairs)
    scores = [pair.score for pair in pairs]
    found, seconds = {}, {}
    for n in (*(size for size in SIZES if size < len(vectors)), len(vectors)):
        start = time.perf_counter()
        found[n] = pair_similarities(fit_form("exact", vectors[:n]), encoded)
        seconds[n] = round(time.perf_counter() - start, 1)
    whole = found[len(vectors)]
    rows = [
        {
            "n": n,
            "with_all": round(float(spearman(whole, part)), 5),
            "largest_error": round(float(abs(part - whole).max()), 4),
            "sts_b": round(100 * float(spearman(scores, part)), 2),
            "seconds": seconds[n],
        }
        for n, part in found.items()
    ]
    cosine = round(100 * float(spearman(scores, pair_similarities(None, encoded))), 2)
    return {"pairs": len(pairs), "sts_b_cosine": cosine, "two_stages": rows}


if __name__ == "__main__":
    main()
