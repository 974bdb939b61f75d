"""A HuggingFace Space that shows a RankEncoder (see README.md)."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from huggingface_hub import snapshot_download

from rankencoder.explorer import explore

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    model = os.environ.get("RANKENCODER_MODEL") or "my-encoder"
    explore(
        model if Path(model).is_dir() else snapshot_download(model),
        os.environ.get("RANKENCODER_INDEX") or None,
        host=os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0"),
        port=int(os.environ.get("GRADIO_SERVER_PORT", "7860")),
        name=Path(model).name,
    )
