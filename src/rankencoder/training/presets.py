"""Presets: recipes for both stages, chosen by name."""

from __future__ import annotations

from typing import Any

PAPER = {"lower": 0.5, "upper": 0.8, "reference_size": 100_000}
PRESETS: dict[str, dict[str, Any]] = {  # what a preset chooses; for "best" see results/README.md
    "paper": PAPER,
    "authors-code": {**PAPER, "student": "head", "reference_size": 10_000},
    "best": {
        "method": "consert",
        "teachers": ["consert", "promptbert"],
        "target": "cosine",
        "combine": "sum",
        "rank_loss_weight": 10.0,
        "diagonal": "never",
        "listwise": "listnet",
    },
}

# in half precision 0.9999 is 1, so that their code for SimCSE pairs each sentence with itself; with SNCSE two
# templates keep the target of such a pair below 0.9999
_SUMMED = {"upper": 0.9999, "combine": "sum", "diagonal": "always"}
PRESETS_BY_METHOD: dict[str, dict[str, dict[str, Any]]] = {  # in place of the settings of its authors
    "paper": {},
    "authors-code": {
        "simcse": _SUMMED,
        "simcse-mlm": _SUMMED,
        "sncse": {**_SUMMED, "batch_size": 128},
    },
    "best": {
        "promptbert": {"batch_size": 64, "learning_rate": 3e-5, "eval_steps": 100},
        "consert": {"learning_rate": 2e-5, "epochs": 1.0, "eval_steps": 100},
    },
}
