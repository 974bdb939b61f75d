"""Looking at trainings."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

SMALL = {
    "method": "simcse",
    "batch_size": 8,
    "max_steps": 6,
    "reference_size": 1000,
    "logging_steps": 1,
    "learning_rate": 1e-3,
}


def flags(**settings):
    return [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def weights(folder):
    return load_file(Path(folder) / "model.safetensors")


def same_weights(a, b, atol=0.0):
    a, b = weights(a), weights(b)
    return a.keys() == b.keys() and all(np.allclose(a[name], b[name], rtol=0, atol=atol) for name in a)


def losses(run):
    return [
        (entry["stage"], entry["step"], entry["loss"]) for entry in run.record["history"] if "loss" in entry
    ]


class Killed(BaseException):
    pass
