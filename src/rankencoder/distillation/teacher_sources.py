"""Open teachers: encoders, RankEncoders, runs, callables, files of vectors and APIs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankencoder.distillation.api_encoder import ApiEncoder
from rankencoder.distillation.distill_config import DistillConfig
from rankencoder.distillation.vector_file import open_rows
from rankencoder.encoder_sources import check_model
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.fused_encoder import FusedEncoder
from rankencoder.model import RankEncoder, open_model
from rankencoder.training.teaching.teachers import BATCH

API = "openai:"
_API_BATCH = 8192  # sentences per call of `ApiEncoder.encode`, which splits them into requests
_FILES = (".npy", ".parquet")
OBJECT = "python:"  # prefix of the names of teachers that are Python objects


def names_of(teachers: Sequence[Any]) -> list[str]:
    """Return the names of teachers for settings and records; objects with the same name are numbered."""
    names = []
    for teacher in teachers:
        if isinstance(teacher, (str, Path)):
            names.append(str(teacher))
            continue
        own = getattr(teacher, "__qualname__", None) or getattr(teacher, "name", None)
        names.append(f"{OBJECT}{own or type(teacher).__qualname__}")
    return [
        f"{name} {count + 1}" if name.startswith(OBJECT) and (count := names[:place].count(name)) else name
        for place, name in enumerate(names)
    ]


def is_file(name: str) -> bool:
    """Return whether a teacher is a file of vectors."""
    return name.lower().endswith(_FILES) and not Path(name).is_dir()


def check_teacher(name: str) -> None:
    """Check that a teacher exists, without loading it."""
    if is_file(name):
        open_rows(Path(name))
    elif not name.startswith((API, OBJECT)):
        check_model(name)


def open_teacher(name: str, given: Any, config: DistillConfig) -> Encoder | RankEncoder:
    """Open a teacher that encodes sentences.

    :param given: The Python object, or an open API.
    """
    if name.startswith(OBJECT):
        if given is None:
            raise InputError(f"teacher {name.removeprefix(OBJECT)} is a Python object: pass it again")
        return open_model(given, device=config.torch_device, batch_size=BATCH)
    if name.startswith(API):
        api = given if isinstance(given, ApiEncoder) else open_api(name, config)
        opened = Encoder(api, batch_size=_API_BATCH)
        opened.name = name
        return opened
    return open_model(name, device=config.torch_device, batch_size=BATCH)


def tokenizer_of(teacher: Encoder | RankEncoder) -> Any:
    """Return the tokenizer of a teacher, or of its first member, or None."""
    encoder = teacher.encoder if isinstance(teacher, RankEncoder) else teacher
    first = encoder.members[0] if isinstance(encoder, FusedEncoder) else encoder
    return getattr(first.model, "tokenizer", None)


def open_api(name: str, config: DistillConfig) -> ApiEncoder:
    """Return the client of an API."""
    return ApiEncoder(name.removeprefix(API), base_url=config.api_base or None)


def static_teacher(config: DistillConfig) -> int:
    """Return the position of the first teacher that can encode the words of a static student."""
    for number, name in enumerate(config.teacher):
        if not is_file(name):
            return number
    raise InputError("a static student needs a teacher that encodes words: a file of vectors is not enough")
