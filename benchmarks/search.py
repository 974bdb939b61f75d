"""An index of a million sentences: how long it takes, in how much memory, and what its searches find.

``rankencoder index`` and the searches run in processes of their own, whose peak memory the system reports.
The sentences are real; the encoder is MiniLM's word vectors, averaged: a transformer would take hours
for them on two cores. Queries are held-out sentences, and exact neighbors are numpy's.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rankencoder.io.storage import write_json
from rankencoder.provenance import provenance
from rankencoder.search.rank_index import RankIndex
from rankencoder.search.table import vectors_of

ROOT = Path(__file__).parents[1]
K = 10
PREFIX = "00"  # of the ids that a filter lets through: they are hashes, so it is one row in 256


def main() -> None:
    """Make an index, search it, and write the figures."""
    options = _options()
    if options.measure:
        print(json.dumps(_measure(options.work)))
        return
    options.work.mkdir(parents=True, exist_ok=True)
    encoder = options.work / "encoder"
    if not encoder.exists():
        average_of_word_vectors(encoder)
    number = write_corpus(options.wiki, options.work, options.size, options.queries)
    index = options.work / "index"
    command = [sys.executable, "-m", "rankencoder", "index", str(encoder), str(options.work / "corpus.txt")]
    _, built = run_measured([*command, "-o", str(index)])
    _, again = run_measured([*command, "-o", str(index)])
    out, searched = run_measured([sys.executable, __file__, "--measure", "--work", str(options.work)])
    found = json.loads(out)
    vectors = np.array(found.pop("vectors"), dtype=np.float32)
    for name, prefix in (("plain", ""), ("filtered", PREFIX)):
        found[name][f"recall@{K}"] = _recall(RankIndex.load(index), vectors, found[name].pop("ids"), prefix)
    result = {
        "sentences": number,
        "build": built,
        "the same command again": again,
        "search": {**searched, **found},
        "index_mb": round(sum(f.stat().st_size for f in index.rglob("*") if f.is_file()) / 1e6),
        "lancedb": version("lancedb"),
        "cores": len(os.sched_getaffinity(0)),
        **provenance(),
    }
    print(json.dumps(result, indent=2))
    write_json(options.output, result)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wiki", type=Path, default=ROOT.parent / "shared" / "data" / "wiki")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--work", type=Path, default=Path("search-benchmark"))
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "search.json")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def average_of_word_vectors(folder: Path) -> None:
    """Write an encoder that averages MiniLM's word vectors: fast, and still about meaning."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    from rankencoder.demo.encoder import bundled_encoder

    minilm: Any = SentenceTransformer(str(bundled_encoder()), device="cpu")
    weights = minilm[0].auto_model.get_input_embeddings().weight.detach().numpy()
    tokenizer = minilm.tokenizer.backend_tokenizer
    tokenizer.no_padding()
    average = StaticEmbedding(tokenizer, embedding_weights=weights - weights.mean(axis=0))
    SentenceTransformer(modules=[average]).save_pretrained(str(folder))


def write_corpus(wiki: Path, work: Path, size: int, queries: int) -> int:
    """Write different sentences to corpus.txt, and others to queries.txt."""
    lines = _different(wiki)
    (work / "queries.txt").write_text("\n".join(islice(lines, queries)), encoding="utf-8")
    number = 0
    with open(work / "corpus.txt", "w", encoding="utf-8") as file:
        for line in islice(lines, size):
            file.write(f"{line}\n")
            number += 1
    return number


def _different(wiki: Path) -> Iterator[str]:
    seen = set()
    for path in sorted(wiki.glob("*.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as file:
            for line in map(str.strip, file):
                if line and hash(line) not in seen:
                    seen.add(hash(line))
                    yield line


def run_measured(command: list[str]) -> tuple[str, dict[str, float]]:
    """Run a command and return its output, its time and its peak memory."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed")
    seconds = time.perf_counter() - start
    return out, {"seconds": round(seconds, 1), "peak_gb": round(usage.ru_maxrss / 1e6, 2)}


def _measure(work: Path) -> dict[str, Any]:
    index = RankIndex.load(work / "index")
    vectors = index.model.encode((work / "queries.txt").read_text(encoding="utf-8").split("\n"))
    return {
        "queries": len(vectors),
        "plain": _searched(index, vectors, None),
        "filtered": _searched(index, vectors, {"id": {"prefix": PREFIX}}),
        "vectors": vectors.tolist(),
    }


def _searched(index: RankIndex, vectors: np.ndarray, where: dict[str, Any] | None) -> dict[str, Any]:
    ids, times = [], []
    for vector in vectors:
        start = time.perf_counter()
        hits = index.search(vector, K, where=where)
        times.append(1000 * (time.perf_counter() - start))
        ids.append([hit.id for hit in hits])
    median, slow = (round(float(value), 1) for value in np.percentile(times, [50, 95]))
    return {"ms_median": median, "ms_95": slow, "ids": ids}


def _recall(index: RankIndex, queries: np.ndarray, found: list[list[str]], prefix: str) -> float:
    """Return the share that was found of the exact neighbors among the rows whose ids begin so."""
    ids: list[str] = []
    best = np.full((len(queries), K), -np.inf)
    where = np.zeros((len(queries), K), dtype=np.int64)
    for batch in index.rows.batches(["id", "vector"], 65_536):
        names = batch["id"].to_pylist()
        chosen = [number for number, name in enumerate(names) if name.startswith(prefix)]
        similarities = np.concatenate([best, queries @ vectors_of(batch)[chosen].T], axis=1)
        new = len(ids) + np.arange(len(chosen))
        numbers = np.concatenate([where, np.broadcast_to(new, (len(queries), len(new)))], axis=1)
        order = np.argpartition(-similarities, K - 1, axis=1)[:, :K]
        best = np.take_along_axis(similarities, order, axis=1)
        where = np.take_along_axis(numbers, order, axis=1)
        ids += [names[number] for number in chosen]
    shared = [len({ids[n] for n in row} & set(near)) for row, near in zip(where, found, strict=True)]
    return round(float(np.mean(shared)) / K, 4)


if __name__ == "__main__":
    main()
