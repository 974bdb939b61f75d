"""Time rank vectors against their peers, in one run: ``make bench``, or this file on a machine with a GPU.

Peers: scipy's rankdata, ranks by numpy's argsort, ranks by torch's argsort, and the loop over rows that the
authors of RankEncoder describe (an argsort and a scatter for each row, then normalised). The other peers stop
at plain ranks. Ratios are peer time / our time.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rankencoder import rank_vectors

GOALS = {"numpy argsort": 4.0, "scipy rankdata": 20.0, "authors' loop": 10.0}


def similarities(rows: int, n: int, device: str) -> torch.Tensor:
    """Return cosines of random unit vectors: bell-shaped, with each row's own sentence far out."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(max(n, rows), 64, generator=generator), dim=1)
    return (vectors[:rows] @ vectors[:n].T).to(device)


def scipy_ranks(array: np.ndarray) -> np.ndarray:
    """Rank by scipy."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(array, axis=1))


def numpy_ranks(array: np.ndarray) -> np.ndarray:
    """Rank by numpy's argsort and a scatter, row by row."""
    ranks = np.empty(array.shape, dtype=np.float32)
    places = np.arange(array.shape[1], dtype=np.float32)
    for row, out in zip(array, ranks, strict=True):
        out[np.argsort(row)] = places
    return ranks


def torch_ranks(tensor: torch.Tensor) -> torch.Tensor:
    """Rank by torch's argsort and a scatter, all rows at once."""
    places = torch.arange(tensor.shape[1], dtype=torch.float32, device=tensor.device).expand_as(tensor)
    return torch.empty_like(tensor).scatter_(1, tensor.argsort(dim=1), places)


def authors_loop(tensor: torch.Tensor) -> torch.Tensor:
    """Make normalised rank vectors, as ours are, row by row on the device."""
    places = torch.arange(tensor.shape[1], dtype=torch.float32, device=tensor.device)
    rows = []
    for row in tensor:
        ranks = torch.empty_like(places)
        ranks[row.argsort()] = places
        rows.append(ranks)
    vectors = torch.stack(rows)
    vectors -= vectors.mean(dim=1, keepdim=True)
    return vectors.div_(vectors.norm(dim=1, keepdim=True))


def best_time(function: Callable[[], object], device: str, rounds: int) -> float:
    """Return the shortest time of some rounds after a warm-up, in seconds."""
    times = []
    for _ in range(rounds + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def largest_error(tensor: torch.Tensor) -> float:
    """Return how far correlations of counted ranks are from those of exact ranks, at most."""
    rows = tensor[:64].double()
    exact, counted = rank_vectors(rows, method="exact"), rank_vectors(tensor[:64]).double()
    return float((counted @ counted.T - exact @ exact.T).abs().max())


def measure(rows: int, n: int, device: str, rounds: int) -> dict[str, Any]:
    """Time ours and all peers at one size."""
    tensor = similarities(rows, n, device)
    ours = best_time(lambda: rank_vectors(tensor), device, rounds)
    peers: dict[str, Callable[[], object]] = {
        "torch argsort": lambda: torch_ranks(tensor),
        "authors' loop": lambda: authors_loop(tensor),
    }
    if device == "cpu":
        array = tensor.numpy()
        peers |= {"numpy argsort": lambda: numpy_ranks(array), "scipy rankdata": lambda: scipy_ranks(array)}
    ratios = {name: best_time(peer, device, max(1, rounds // 3)) / ours for name, peer in peers.items()}
    return {
        "B": rows,
        "n": n,
        "device": device,
        "ms": 1000 * ours,
        "ratios": ratios,
        "error": largest_error(tensor),
    }


def main() -> None:
    """Measure, print a table, and write JSON where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    sizes = [(b, n) for n in (1_000, 10_000, 100_000) for b in (1, 64, 512)]
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}")
    results = []
    for device in devices:
        print(f"\n{device if device == 'cpu' else torch.cuda.get_device_name()}: peer time / our time")
        for rows, n in sizes:
            if device == "cpu" and rows * n > 64 * 100_000:
                continue
            result = measure(rows, n, device, options.rounds)
            results.append(result)
            ratios = "  ".join(f"{name} {ratio:5.1f}x" for name, ratio in result["ratios"].items())
            print(f"B={rows:<4} n={n:<7} {result['ms']:9.3f} ms  {ratios}  error {result['error']:.0e}")
    print("\nGoals at B=64, n=100,000:")
    for result in results:
        if (result["B"], result["n"]) == (64, 100_000):
            for name, goal in GOALS.items():
                if name in result["ratios"] and (name != "authors' loop" or result["device"] == "cuda"):
                    ratio = result["ratios"][name]
                    verdict = "reached" if ratio >= goal else "MISSED"
                    print(f"  {result['device']}: at least {goal:.0f}x {name}: {ratio:.1f}x, {verdict}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
