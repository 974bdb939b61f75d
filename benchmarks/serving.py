"""Throughput of ``rankencoder serve`` with batching, and with sentences encoded one by one, at 64 clients.

Two servers of all-MiniLM-L6-v2 on the loopback interface, asked in turn, one sentence a request::

    python benchmarks/serving.py --json benchmarks/results/serving.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from rankencoder.demo.docstrings import sentences, standard_library
from rankencoder.demo.encoder import bundled_encoder

MODES = {"batched": list[str](), "one by one": ["--batch-size", "1"]}


@contextmanager
def server(name: str, options: list[str]) -> Iterator[int]:
    """Start a server and yield its port."""
    command = [sys.executable, "-m", "rankencoder", "serve", str(bundled_encoder()), "--port", "0", *options]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            while "ready at" not in log.read_text():
                if process.poll() is not None:
                    raise SystemExit(f"{name}: {log.read_text()}")
                time.sleep(0.1)
            yield int(log.read_text().partition("ready at ")[2].split()[0].rsplit(":", 1)[1])
        finally:
            process.terminate()
            process.wait()


async def client(port: int, texts: Iterator[str], times: list[float]) -> int:
    """Ask for one sentence after the other on one connection; return how many were answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answered = 0
    for text in texts:
        body = json.dumps({"input": text, "encoding_format": "base64"}).encode()
        head = f"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        started = time.perf_counter()
        writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(answer.partition(b"content-length:")[2].split()[0]))
        answered += answer.split()[1] == b"200"
        times.append(time.perf_counter() - started)
    writer.close()
    return answered


async def ask(port: int, texts: list[str], clients: int) -> dict[str, Any]:
    """Let clients ask for all texts; return the throughput."""
    rest, times = iter(texts), list[float]()
    started = time.perf_counter()
    answered = sum(await asyncio.gather(*(client(port, rest, times) for _ in range(clients))))
    seconds = time.perf_counter() - started
    return {
        "requests": len(texts),
        "answered": answered,
        "requests_per_second": len(texts) / seconds,
        "median_ms": 1000 * statistics.median(times),
        "p99_ms": 1000 * statistics.quantiles(times, n=100)[98],
    }


def workloads(number: int) -> dict[str, list[str]]:
    """Return whole sentences of docstrings, and their first six words as people type them into a search."""
    corpus = list(dict.fromkeys(islice(sentences(standard_library()), 20_000)))
    whole = random.Random(0).sample(corpus, number)
    return {"queries": [" ".join(text.split()[:6]) for text in whole], "sentences": whole}


def compare(ports: dict[str, int], texts: list[str], clients: int, rounds: int) -> dict[str, Any]:
    """Ask all servers in turn; return the ratio of the first to the second."""
    rows: list[dict[str, Any]] = []
    for _ in range(rounds):
        found = {name: asyncio.run(ask(port, texts, clients)) for name, port in ports.items()}
        first, second = (found[name]["requests_per_second"] for name in ports)
        rows.append({**found, "ratio": first / second})
        print(f"  {first:.0f} and {second:.0f} requests/s: {first / second:.2f}×", flush=True)
    return {
        "ratio": statistics.median(row["ratio"] for row in rows),
        "lost": sum(row[name]["requests"] - row[name]["answered"] for row in rows for name in ports),
        "mean_characters": statistics.mean(map(len, texts)),
        "rounds": rows,
    }


def main() -> None:
    """Ask both servers in turn, print ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=1000, help="per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {
        "clients": options.clients,
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_average_before": os.getloadavg()[0],
    }
    with ExitStack() as stack:
        ports = {name: stack.enter_context(server(name, more)) for name, more in MODES.items()}
        for name, texts in workloads(options.requests).items():
            for port in ports.values():
                asyncio.run(ask(port, texts[:128], options.clients))  # warms up
            result[name] = found = compare(ports, texts, options.clients, options.rounds)
            print(f"{name}: batching {found['ratio']:.2f}× one by one, {found['lost']} requests lost")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
