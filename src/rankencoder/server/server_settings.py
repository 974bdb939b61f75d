"""What a server allows, and how it batches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from rankencoder.errors import InputError
from rankencoder.io.corpus import LONGEST

MOST = 10**9
"""The largest number that a setting may be."""

KEY_VARIABLE = "RANKENCODER_API_KEY"


@dataclass(frozen=True)
class Settings:
    """Settings of a server.

    :param name: What requests call the model.
    :param max_sentences: Sentences per request.
    :param max_chars: Characters per sentence.
    :param max_body: Bytes of a request's body.
    :param timeout: Seconds that a request may take, and that its body may take to arrive.
    :param batch_sentences: Sentences that are encoded together, of as many requests as there are.
    :param batch_wait: Seconds to wait for more requests before encoding.
    :param max_waiting: Sentences that may wait to be encoded; requests beyond are turned away.
    :param max_neighbors: Largest k of an explanation or a search.
    :param api_key: The key that clients must show, or None.
    """

    name: str = "rankencoder"
    max_sentences: int = 2048
    max_chars: int = LONGEST
    max_body: int = 8 * 2**20
    timeout: float = 60.0
    batch_sentences: int = 64
    batch_wait: float = 0.003
    max_waiting: int = 16_384
    max_neighbors: int = 1000
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            smallest = 0 if setting.name == "batch_wait" else 1
            if isinstance(value, (int, float)) and not smallest <= value <= MOST:
                raise InputError(f"{setting.name} must be from {smallest} to {MOST:,}, not {value}")
        if self.max_chars > LONGEST:
            raise InputError(f"max_chars must be at most {LONGEST:,}, the longest text that is encoded")
        if self.max_waiting < self.max_sentences:
            raise InputError(
                f"max_waiting ({self.max_waiting}) must be at least max_sentences ({self.max_sentences}): "
                "the largest request would never be let in"
            )


def read_key(file: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the API key of a file or of the environment, where there is one.

    :raises InputError: If it is empty, or nothing that a header can carry.
    """
    if file is not None:
        try:
            text, place = file.read_text(encoding="utf-8"), str(file)
        except OSError as error:
            raise InputError(f"cannot read the API key: {error.strerror}: {file}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"cannot read the API key: {file} is not a text file") from error
    elif KEY_VARIABLE in environment:
        text, place = environment[KEY_VARIABLE], KEY_VARIABLE
    else:
        return None
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{place} holds no API key: write one word of printable ASCII characters into it")
    return key
