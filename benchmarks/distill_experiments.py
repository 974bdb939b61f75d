"""The distillations that ``results/`` reports: students, teachers, text and settings by name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

SENTENCES = 250_000
SMALL = ["minilm", "e5-small", "paraphrase-minilm-l3"]
SIX = [*SMALL, "mpnet", "bge-small", "gte-small"]
FIVE = [name for name in SIX if name != "paraphrase-minilm-l3"]  # the weakest on STS-B dev
LAYERS = {"learning_rate": 1e-4, "batch_size": 256, "epochs": 1.0}
"""Of both sides where layers are dropped; the learning rate is that of sentence-transformers' example."""


@dataclass(frozen=True)
class Experiment:
    """What is made of which encoders on which text.

    :param kind: Who makes the encoder that is scored (see `distill.DO`).
    :param settings: Of `rankencoder.distill`, or of a peer; encoders go by the names of their folders.
    :param start: The encoder that the student's scores are compared with.
    :param corpus: "wiki", "questions": the same and questions of QQP dev, or "only-questions".
    :param seeds: Those that are run unless others are asked for.
    :param timed: Whether teachers encode within the run, so that its seconds are all that a user waits for.
    """

    kind: str
    settings: dict[str, Any] = field(default_factory=dict)
    start: str = "minilm"
    corpus: str = "wiki"
    seeds: tuple[int, ...] = (1, 2, 3)
    timed: bool = False


def taught(teachers: list[str], **settings: Any) -> Experiment:
    """Return all-MiniLM-L6-v2 as the student of some teachers."""
    return Experiment("distill", {"student": "minilm", "teacher": teachers, **settings})


VARIANTS: dict[str, dict[str, Any]] = {
    "lr-2e-4": {"learning_rate": 2e-4},
    "lr-5e-5": {"learning_rate": 5e-5},
    "lr-3e-5-batch-512": {"learning_rate": 3e-5, "batch_size": 512},
    "lr-3e-5-dropout": {"learning_rate": 3e-5, "dropout": True},
    "lr-3e-5-epochs-4": {"learning_rate": 3e-5, "epochs": 4.0},
    "epochs-4": {"learning_rate": 1e-4, "epochs": 4.0},
}
"""Other settings for three teachers, one seed each: chosen by agreement with them on held-out text."""

SIX_VARIANTS: dict[str, dict[str, Any]] = {
    "lr-2e-4": {"learning_rate": 2e-4},
    "weighted": {"weight": [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]},
}
"""Other settings for six teachers. Weighted: the three that are best on STS-B dev count twice."""

LAYER_VARIANTS: dict[str, dict[str, Any]] = {
    "similarities": {"vector_weight": 0.0},
    "vectors-1": {"vector_weight": 1.0},
    "vectors-10": {"vector_weight": 10.0},
    "dropout": {"dropout": True},
}
"""Other settings for three of six layers, one seed each: chosen on STS-B dev."""

MPNET_VARIANTS: dict[str, dict[str, Any]] = {
    "vectors-10": {"vector_weight": 10.0},
    "vectors-1000": {"vector_weight": 1000.0},
    "dropout": {"dropout": True},
    "committee-vectors-10": {"teacher": SIX, "vector_weight": 10.0},
    "committee-similarities": {"teacher": SIX, "vector_weight": 0.0},
    "committee-dropout": {"teacher": SIX, "dropout": True},
}
"""Other settings for six of twelve layers, likewise."""

MAIN = {"minilm-3": taught(SMALL), "minilm-6": taught(SIX)}

EXPERIMENTS: dict[str, Experiment] = {
    **{
        f"encoder-{name}": Experiment("encoder", {"student": name}, name, seeds=(1,))
        for name in (*SIX, "potion")
    },
    "minilm-3-timed": replace(taught(SMALL, learning_rate=3e-5), seeds=(1,), timed=True),
    "minilm-6-timed": replace(MAIN["minilm-6"], seeds=(1,), timed=True),
    **MAIN,
    **{
        f"minilm-3-{name}": replace(taught(SMALL, **settings), seeds=(1,))
        for name, settings in VARIANTS.items()
    },
    "minilm-6-epochs-4": replace(taught(SIX, **VARIANTS["epochs-4"]), seeds=(1,)),
    "minilm-6-lr-2e-4-epochs-4": taught(SIX, learning_rate=2e-4, epochs=4.0),
    **{
        f"minilm-6-{name}": replace(taught(SIX, **settings), seeds=(1,))
        for name, settings in SIX_VARIANTS.items()
    },
    "minilm-5": replace(taught(FIVE), seeds=(1,)),
    "minilm-3-questions": replace(MAIN["minilm-3"], corpus="questions"),
    "minilm-3-only-questions": replace(taught(SMALL, epochs=4.0), corpus="only-questions"),
    **{
        f"{what}-minilm-3": Experiment(kind, {"student": "minilm", "layers": 3, **more}, seeds=seeds)
        for what, kind, more, seeds in (
            ("start", "start", {}, (1,)),
            ("layers", "distill", {"teacher": ["minilm"], **LAYERS}, (1, 2, 3)),
            ("mse", "mse", LAYERS, (1, 2, 3)),
        )
    },
    **{
        f"{what}-mpnet-6": Experiment(kind, {"student": "mpnet", "layers": 6, **more}, "mpnet", seeds=seeds)
        for what, kind, more, seeds in (
            ("start", "start", {}, (1,)),
            ("layers", "distill", {"teacher": ["mpnet"], **LAYERS}, (1, 2, 3)),
            ("mse", "mse", LAYERS, (1, 2, 3)),
        )
    },
    **{
        f"layers-minilm-3-{name}": Experiment(
            "distill",
            {"student": "minilm", "layers": 3, "teacher": ["minilm"], **LAYERS, **settings},
            seeds=(1,),
        )
        for name, settings in LAYER_VARIANTS.items()
    },
    **{
        f"layers-mpnet-6-{name}": Experiment(
            "distill",
            {"student": "mpnet", "layers": 6, "teacher": ["mpnet"], **LAYERS, **settings},
            "mpnet",
            seeds=(1,),
        )
        for name, settings in MPNET_VARIANTS.items()
    },
    "layers-mpnet-6-committee": Experiment(
        "distill", {"student": "mpnet", "layers": 6, "teacher": SIX, **LAYERS}, "mpnet"
    ),
    "layers-minilm-3-committee": Experiment(
        "distill", {"student": "minilm", "layers": 3, "teacher": SMALL, **LAYERS}
    ),
    "static": Experiment("distill", {"student": "static", "teacher": ["minilm"], "dim": 256}),
    "static-epochs-4": Experiment(
        "distill",
        {"student": "static", "teacher": ["minilm"], "dim": 256, "epochs": 4.0, "learning_rate": 1e-3},
        seeds=(1,),
    ),
    "model2vec": Experiment("model2vec", {"student": "minilm", "dim": 256}, seeds=(1,)),
}
