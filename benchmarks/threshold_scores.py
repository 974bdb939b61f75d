"""Cosines of labelled pairs by several encoders, for the study of thresholds (``thresholds.py``).

Needs the development data (``../shared``, or RANKENCODER_SHARED) and the encoders of ``pypi_encoders.py``;
with ``--backend openvino:bf16`` it takes a third of the time, at fidelity 0.9999::

    python benchmarks/threshold_scores.py experiments-work/encoders -o experiments-work/threshold-scores
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import numpy as np
from sts import SHARED

from rankencoder.encoders import Encoder
from rankencoder.io.pairs import read_pair_lines

ENCODERS = {
    "minilm": "",
    "paraphrase-minilm-l3": "",
    "potion": "",
    "e5-small": "query: ",
    "mpnet": "",
    "e2": "",
}
"""Encoders of the study, each with its prompt."""

SETS = {
    "QQP dev": (("data/pairs/qqp_dev.tsv",), 1.0, (0, 1, 2)),
    "MRPC": (
        tuple(f"data/senteval/downstream/MRPC/msr_paraphrase_{part}.txt" for part in ("train", "test")),
        1.0,
        (0, 3, 4),
    ),
    "STS-B train, 4 and more": (("data/sts-raw/STSB/train.tsv",), 4.0, (0, 1, 2)),
    "SemRel train, 0.75 and more": (("data/pairs/semrel2024_en_train.tsv",), 0.75, (0, 1, 2)),
    "SICK train, 4 and more (held out)": (("data/sts-raw/SICKR/train.tsv",), 4.0, (0, 1, 2)),
    "STS12 to STS16, 4 and more (held out)": (
        tuple(f"data/sts-raw/STS{year}/*.tsv" for year in range(12, 17)),
        4.0,
        (0, 1, 2),
    ),
}
"""Sets of pairs: files, the score from which on a pair means the same, columns of score and sentences.

No setting was chosen by looking at the sets that are held out. STS12 to 16 are without pairs of STS-B train.
"""


def read_set(name: str) -> tuple[list[bool], list[str], list[str]]:
    """Return whether the two sentences of each pair mean the same, and the sentences."""
    files, lowest, columns = SETS[name]
    labels, a, b = [], [], []
    seen = set(zip(*read_set("STS-B train, 4 and more")[1:], strict=True)) if "STS12" in name else set()
    for file in (path for pattern in files for path in sorted(SHARED.glob(pattern))):
        for text, _ in read_pair_lines(file):
            score, first, second = (text.rstrip("\r\n").split("\t")[column] for column in columns)
            if score.lstrip("\ufeff") != "Quality" and (first, second) not in seen:
                labels.append(float(score) >= lowest)
                a.append(first)
                b.append(second)
    return labels, a, b


def main() -> None:
    """Encode each set by each encoder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoders", type=Path, help="folder of encoders")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=list(ENCODERS))
    parser.add_argument("--backend", default="torch", help="torch, openvino:bf16 …")
    parser.add_argument("--held-out", action="store_true", help="only the sets that are held out")
    parser.add_argument("--pairs", type=int, help="random pairs of each set; by default all")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        path = args.output / f"{name}.npz"
        if path.exists():
            continue
        encoder = Encoder(str(args.encoders / name), prompt=ENCODERS[name], backend=args.backend)
        arrays: dict[str, Any] = {}
        for number, key in enumerate(SETS):
            if args.held_out and "held out" not in key:
                continue
            rows_of_set = list(zip(*read_set(key), strict=True))
            if args.pairs:
                rows_of_set = random.Random(0).sample(rows_of_set, args.pairs)
            labels, a, b = map(list, zip(*rows_of_set, strict=True))
            distinct = list(dict.fromkeys([*a, *b]))
            rows = dict(zip(distinct, encoder.encode(distinct), strict=True))
            cosines = [float(rows[x] @ rows[y]) for x, y in zip(a, b, strict=True)]
            arrays[f"cosines{number}"] = np.array(cosines, dtype=np.float32)
            arrays[f"labels{number}"] = np.array(labels)
        np.savez_compressed(path, **arrays)
        print(name, {key: len(values) for key, values in arrays.items()}, flush=True)


if __name__ == "__main__":
    main()
