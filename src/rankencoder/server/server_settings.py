"""Settings of the server."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from rankencoder.errors import InputError

KEY_VARIABLE = "RANKENCODER_API_KEY"
MAX_SENTENCES = 2048  # of a request, as with OpenAI


class ServerSettings(BaseModel):
    """Settings of a server."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field(default="rankencoder", description="What clients call the model.")
    max_body_mb: float = Field(default=8.0, gt=0, le=1000, description="Megabytes per request.")
    timeout: float = Field(
        default=60.0, ge=1, le=1e6, description="Seconds for a request to arrive, and to be answered."
    )
    batch_sentences: int = Field(default=64, ge=1, le=10**6, description="Sentences encoded together.")
    batch_wait_ms: float = Field(
        default=3.0, ge=0, le=1e6, description="Milliseconds to wait for more of them."
    )
    max_waiting: int = Field(
        default=16_384, ge=MAX_SENTENCES, le=10**9, description="Sentences that may wait to be encoded."
    )
    api_key: str | None = Field(default=None, repr=False, description="The key that clients must send.")


def read_key(file: Path | None) -> str | None:
    """Return the API key of a file or of the environment, or None."""
    text = os.environ.get(KEY_VARIABLE) if file is None else file.read_text("utf-8", errors="replace")
    if text is None:
        return None
    key = text.strip()
    if not re.fullmatch("[!-~]+", key):
        place = file or KEY_VARIABLE
        raise InputError(f"{place} holds no API key: write one word of printable ASCII characters into it")
    return key
