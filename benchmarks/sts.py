"""Score similarities of all-MiniLM-L6-v2 on the seven STS sets: cosine, ranks, blends and powers.

Spearman's correlation ×100 over all pairs of a set ("all"), mean ± standard deviation over seeds of the
reference corpus. Needs the development data (``../shared``, or RANKENCODER_SHARED)::

    python benchmarks/sts.py --seeds 3 --size 20000 --json benchmarks/results/sts-minilm.json
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from rankencoder import Reference
from rankencoder.blend import blend
from rankencoder.demo.encoder import bundled_encoder
from rankencoder.encoders import Encoder
from rankencoder.evaluation.pairwise import PairVectors, encode_pairs, pair_similarities
from rankencoder.evaluation.statistics import spearman
from rankencoder.evaluation.sts_data import SEVEN, read_sts
from rankencoder.forms import fit_form

SHARED = Path(os.environ.get("RANKENCODER_SHARED", Path(__file__).parents[2] / "shared"))


def wiki_lines() -> Iterator[str]:
    """Yield Wikipedia sentences, up to a million."""
    for part in sorted((SHARED / "data/wiki").glob("wiki1m-part*.txt.xz")):
        with lzma.open(part, "rt", encoding="utf-8") as file:
            yield from (line.strip() for line in file)


def wiki_sentences(number: int) -> list[str]:
    """Return the first Wikipedia sentences."""
    return list(islice(wiki_lines(), number))


def similarities(reference: torch.Tensor, encoded: PairVectors) -> Iterator[tuple[str, np.ndarray]]:
    """Yield every similarity of pairs."""
    cosine = pair_similarities(None, encoded)
    ranks = pair_similarities(fit_form("exact", reference), encoded)
    yield "cosine", cosine
    yield "ranks", ranks
    for weight in (0.05, 0.1, 0.3):
        yield f"blend {weight}", blend(ranks, cosine, weight)
    yield "compact 256", pair_similarities(fit_form("compact", reference), encoded)
    for power in (0.5, 0.25, -0.25, -0.5):
        yield f"power {power:+.2f}", pair_similarities(fit_form("linear", reference, power=power), encoded)


def main() -> None:
    """Encode once, score with each seed's reference corpus, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--size", type=int, default=20_000, help="sentences of the reference corpus")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    encoder = Encoder(bundled_encoder(), batch_size=64)
    sets = {
        s.name: (np.array([pair.score for pair in s.pairs]), encode_pairs(encoder, s.pairs))
        for s in read_sts(SHARED / "data/sts-raw", SEVEN)
    }
    corpus = wiki_sentences(250_000)
    table: dict[str, list[dict[str, float]]] = {}
    for seed in range(options.seeds):
        reference = Reference.build(encoder, corpus, size=options.size, seed=seed)
        runs: dict[str, dict[str, float]] = {}
        for name, (gold, encoded) in sets.items():
            for label, values in similarities(torch.from_numpy(reference.vectors), encoded):
                runs.setdefault(label, {})[name] = 100 * spearman(gold, values)
        for label, run in runs.items():
            table.setdefault(label, []).append({**run, "AVG": float(np.mean(list(run.values())))})
    columns = [*sets, "AVG"]
    print("| similarity | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for label, rows in table.items():
        cells = (np.array([row[column] for row in rows]) for column in columns)
        print(f"| {label} | " + " | ".join(f"{cell.mean():.2f} ± {cell.std():.2f}" for cell in cells) + " |")
    if options.json:
        about = {"encoder": "all-MiniLM-L6-v2", "reference_size": options.size, "seeds": options.seeds}
        options.json.write_text(json.dumps({**about, "runs": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
