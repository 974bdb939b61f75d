"""What was asked for, and whether a run has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Result = dict[str, Any]
Found = tuple[str, float]
"""Where a value was measured, and the value."""


@dataclass(frozen=True)
class Goal:
    """A bound on values that a run holds.

    :param find: Yields the values of a section's rows on one device.
    """

    text: str
    section: str
    device: Literal["cpu", "cuda"]
    side: Literal["at least", "at most"]
    bound: float
    find: Callable[[list[Result]], Iterator[Found]]

    def reached(self, value: float) -> bool:
        """Say whether a value is on the right side of the bound."""
        return value >= self.bound if self.side == "at least" else value <= self.bound

    def rows(self, result: Result) -> Iterator[tuple[str, float, bool]]:
        """Yield where, value and verdict, for each value of a run."""
        for where, value in self.find(result["sections"].get(self.section, {}).get(self.device) or []):
            yield where, value, self.reached(value)


def ranking(peer: str) -> Callable[[list[Result]], Iterator[Found]]:
    """Find the ratio to a peer at 64 rows of 100,000."""

    def find(rows: list[Result]) -> Iterator[Found]:
        for row in rows:
            if (row["B"], row["n"]) == (64, 100_000) and peer in row["peers"]:
                yield "B = 64, n = 100,000", row["peers"][peer]["ratio"]

    return find


def overhead(n: int, *, of_peer: bool = False) -> Callable[[list[Result]], Iterator[Found]]:
    """Find what the compact form adds to the encoder's time, or to that of SentenceTransformer.encode."""

    def find(rows: list[Result]) -> Iterator[Found]:
        for row in rows:
            if row["precision"] == "float32" and row is rows[0]:
                for part in row["rank_parts"]:
                    if (part["form"], part["n"]) == ("compact", n):
                        faster = row["peers"]["SentenceTransformer.encode"]["ratio"] if of_peer else 1
                        yield f"{row['model']}, {row['precision']}", part["overhead"] / faster

    return find


def throughput(rows: list[Result]) -> Iterator[Found]:
    """Find how much faster than SentenceTransformer.encode we are."""
    for row in rows:
        yield f"{row['model']}, {row['precision']}", row["peers"]["SentenceTransformer.encode"]["ratio"]


def whole_encode(rows: list[Result]) -> Iterator[Found]:
    """Find how much faster RankEncoder.encode is than SentenceTransformer.encode."""
    for row in rows:
        ours = row["peers"]["RankEncoder.encode, n = 10,000"]["ratio"]
        yield (
            f"{row['model']}, {row['precision']}",
            row["peers"]["SentenceTransformer.encode"]["ratio"] / ours,
        )


def steps(value: str, stages: str) -> Callable[[list[Result]], Iterator[Found]]:
    """Find a value of training steps whose kind begins with some letters."""

    def find(rows: list[Result]) -> Iterator[Found]:
        for row in rows:
            for name, kind in row["kinds"].items():
                if name.startswith(stages):
                    yield f"{row['model']}, B = {row['B']}, {name}", kind[value]

    return find


def evaluation(rows: list[Result]) -> Iterator[Found]:
    """Find how much faster than the naive loop evaluation is."""
    for row in rows:
        yield row["what"], row["peers"]["naive loop"]["ratio"]


def backend(name: str, least: float) -> Callable[[list[Result]], Iterator[Found]]:
    """Find the ratio to SentenceTransformer.encode of a backend whose fidelity is high enough."""

    def find(rows: list[Result]) -> Iterator[Found]:
        for row in rows:
            found = row["rows"].get(f"ours, {name}")
            if found and found["fidelity"] >= least:
                yield f"{row['what']}, fidelity {found['fidelity']:.4f}", found["ratio"]

    return find


def static(rows: list[Result]) -> Iterator[Found]:
    """Find how much faster than model2vec our static students are."""
    for row in rows:
        if "model2vec" in row["rows"]:
            yield row["what"], row["rows"]["ours, static"]["ratio"]


def rank_share(name: str, n: int) -> Callable[[list[Result]], Iterator[Found]]:
    """Find what ranks add to the time of an encoder."""

    def find(rows: list[Result]) -> Iterator[Found]:
        for row in rows:
            if "overhead" in (found := row["rows"].get(f"RankEncoder, {name}, n = {n:,}", {})):
                yield f"{name}, n = {n:,}", found["overhead"]

    return find


def seconds(command: str) -> Callable[[list[Result]], Iterator[Found]]:
    """Find how long a command takes."""

    def find(rows: list[Result]) -> Iterator[Found]:
        for row in rows:
            if command in row["rows"]:
                yield "start to end", row["rows"][command]["seconds"]

    return find


SHARE = "compact form / time of"
FAST = "backend / SentenceTransformer.encode"
RANKED = "ranks alone / time of the encoder"
GOALS = (
    Goal(f"{FAST}, fidelity 0.999", "backends", "cpu", "at least", 3.5, backend("openvino:bf16", 0.999)),
    Goal(f"{FAST}, fidelity 0.99", "backends", "cpu", "at least", 3, backend("openvino:int8", 0.99)),
    Goal("static / model2vec", "backends", "cpu", "at least", 1, static),
    Goal(RANKED, "backends", "cpu", "at most", 0.02, rank_share("torch", 10_000)),
    Goal(RANKED, "backends", "cpu", "at most", 0.02, rank_share("torch", 3_000)),
    Goal(RANKED, "backends", "cpu", "at most", 0.02, rank_share("openvino:bf16", 10_000)),
    Goal(RANKED, "backends", "cpu", "at most", 0.02, rank_share("openvino:bf16", 3_000)),
    Goal("rankencoder --help, seconds", "backends", "cpu", "at most", 0.3, seconds("rankencoder --help")),
    Goal("similarity, seconds", "backends", "cpu", "at most", 4, seconds("rankencoder similarity")),
    Goal("ranking / numpy argsort", "ranking", "cpu", "at least", 4, ranking("numpy argsort")),
    Goal("ranking / scipy rankdata", "ranking", "cpu", "at least", 20, ranking("scipy rankdata")),
    Goal("ranking / authors' loop", "ranking", "cuda", "at least", 10, ranking("authors' loop")),
    Goal(
        f"{SHARE} SentenceTransformer.encode",
        "encoding",
        "cpu",
        "at most",
        0.02,
        overhead(10_000, of_peer=True),
    ),
    Goal(f"{SHARE} our faster encoder", "encoding", "cpu", "at most", 0.02, overhead(10_000)),
    Goal(
        f"{SHARE} SentenceTransformer.encode",
        "encoding",
        "cuda",
        "at most",
        0.02,
        overhead(100_000, of_peer=True),
    ),
    Goal(f"{SHARE} our faster encoder", "encoding", "cuda", "at most", 0.02, overhead(100_000)),
    Goal("encoder / SentenceTransformer.encode", "encoding", "cpu", "at least", 1, throughput),
    Goal("encoder / SentenceTransformer.encode", "encoding", "cuda", "at least", 1, throughput),
    Goal(
        "RankEncoder.encode / SentenceTransformer.encode", "encoding", "cpu", "at least", 0.98, whole_encode
    ),
    Goal(
        "RankEncoder.encode / SentenceTransformer.encode", "encoding", "cuda", "at least", 0.98, whole_encode
    ),
    Goal(
        "step / sentence-transformers' trainer", "training", "cuda", "at least", 1.3, steps("ratio", "stage")
    ),
    Goal("stage 2 to stage 1, time", "training", "cuda", "at most", 1.1, steps("to_stage_1", "stage 2")),
    Goal("stage 2 to stage 1, time", "training", "cpu", "at most", 1.1, steps("to_stage_1", "stage 2")),
    Goal("evaluation / naive loop", "evaluation", "cpu", "at least", 1, evaluation),
)
