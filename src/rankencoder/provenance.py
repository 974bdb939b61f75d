"""Record software versions and the machine."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rankencoder._version import __version__

_PACKAGES = (
    "torch",
    "sentence-transformers",
    "transformers",
    "accelerate",
    "datasets",
    "tokenizers",
    "numpy",
    "scikit-learn",
    "scipy",
)


def provenance() -> dict[str, Any]:
    """Return the versions of the relevant packages, and the machine."""
    versions = {"rankencoder": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    machine = {"platform": platform.platform(), "processor": platform.machine()}
    return {"versions": versions, "machine": machine}
