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
from scipy.stats import spearmanr

from rankencoder import Reference
from rankencoder.blend import blend
from rankencoder.demo.encoder import bundled_encoder
from rankencoder.encoders import Encoder
from rankencoder.forms import fit_form

SHARED = Path(os.environ.get("RANKENCODER_SHARED", Path(__file__).parents[2] / "shared"))
Pairs = tuple[list[float], list[str], list[str]]


def wiki_sentences(number: int) -> list[str]:
    """Return Wikipedia sentences."""
    with lzma.open(SHARED / "data/wiki/wiki1m-part0.txt.xz", "rt", encoding="utf-8") as file:
        return [line.strip() for line in islice(file, number)]


def read_sts(name: str, split: str = "test.tsv") -> Pairs:
    """Return scores, first and second sentences of a set: the whole year, or a split."""
    folder = SHARED / "data/sts-raw" / name
    paths = sorted(folder.glob("*.tsv")) if name.startswith("STS1") else [folder / split]
    rows = [line.split("\t") for path in paths for line in path.read_text("utf-8").splitlines() if line]
    return [float(row[0]) for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def sts_sets() -> dict[str, Pairs]:
    """Return the seven sets of the field's convention."""
    return {name: read_sts(name) for name in ("STS12", "STS13", "STS14", "STS15", "STS16", "STSB", "SICKR")}


def spearman(scores: list[float], similarities: torch.Tensor) -> float:
    """Return Spearman's correlation ×100."""
    return 100 * float(spearmanr(scores, similarities.numpy()).statistic)


def pairwise(form: torch.nn.Module, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the inner products of a form's parts, a few hundred pairs at a time."""
    return torch.cat(
        [(form(x) * form(y)).sum(dim=1) for x, y in zip(a.split(500), b.split(500), strict=True)]
    )


def similarities(
    reference: torch.Tensor, a: torch.Tensor, b: torch.Tensor
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every similarity of the pairs of two sets of unit vectors."""
    cosine = (a * b).sum(dim=1)
    ranks = pairwise(fit_form("exact", reference), a, b)
    yield "cosine", cosine
    yield "ranks", ranks
    for weight in (0.05, 0.1, 0.3):
        yield f"blend {weight}", blend(ranks, cosine, weight)
    yield "compact 256", pairwise(fit_form("compact", reference), a, b)
    for power in (0.5, 0.25, -0.25, -0.5):
        yield f"power {power:+.2f}", pairwise(fit_form("linear", reference, power=power), a, b)


def main() -> None:
    """Encode once, score with each seed's reference corpus, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--size", type=int, default=20_000, help="sentences of the reference corpus")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    encoder = Encoder(bundled_encoder(), batch_size=64)
    sets = {name: (scores, encoder(a), encoder(b)) for name, (scores, a, b) in sts_sets().items()}
    corpus = wiki_sentences(250_000)
    table: dict[str, list[dict[str, float]]] = {}
    for seed in range(options.seeds):
        reference = Reference.build(encoder, corpus, size=options.size, seed=seed)
        runs: dict[str, dict[str, float]] = {}
        for name, (scores, a, b) in sets.items():
            for label, values in similarities(torch.from_numpy(reference.vectors), a, b):
                runs.setdefault(label, {})[name] = spearman(scores, values)
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
