"""Settings of the server."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from rankencoder.errors import InputError

KEY_VARIABLE = "RANKENCODER_API_KEY"


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server.

    :param name: What requests call the model.
    :param max_body_mb: Megabytes of a request's body.
    :param timeout: Seconds that a request may take, and that its body may take to arrive.
    :param batch_sentences: Sentences that are encoded together, from all requests.
    :param batch_wait_ms: Milliseconds to wait for more requests before encoding.
    :param max_waiting: Sentences that may wait to be encoded; requests beyond are answered 429.
    :param api_key: The key that clients must send, or None.
    """

    name: str = "rankencoder"
    max_body_mb: float = 8.0
    timeout: float = 60.0
    batch_sentences: int = 64
    batch_wait_ms: float = 3.0
    max_waiting: int = 16_384
    api_key: str | None = field(default=None, repr=False)


def read_key(file: Path | None) -> str | None:
    """Return the API key of a file or of the environment, or None."""
    if file is not None:
        try:
            text, place = file.read_text(encoding="utf-8"), str(file)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not a text file"
            raise InputError(f"cannot read the API key: {reason}: {file}") from error
    elif KEY_VARIABLE in os.environ:
        text, place = os.environ[KEY_VARIABLE], KEY_VARIABLE
    else:
        return None
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{place} holds no API key: write one word of printable ASCII characters into it")
    return key
