"""Open teachers: encoders, RankEncoders, runs, callables, files of vectors and APIs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankencoder.distillation.api_encoder import ApiEncoder
from rankencoder.distillation.distill_config import DistillConfig
from rankencoder.distillation.vector_file import VectorFile, open_rows
from rankencoder.encoder_sources import check_model
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.fused_encoder import FusedEncoder
from rankencoder.model import RankEncoder, open_model
from rankencoder.training.sentences import Sentences
from rankencoder.training.teaching.teachers import BATCH

API = "openai:"
_SENT = 8192  # sentences per call of an API's encoder, which makes requests of them
_FILES = (".npy", ".parquet")
OBJECT = "python:"  # begins the name of a teacher that is an object, not a name


def names_of(teachers: Sequence[Any]) -> list[str]:
    """Return the names of teachers for settings and records; objects of the same name are numbered."""
    names = [_name_of(teacher) for teacher in teachers]
    return [
        f"{name} {count + 1}" if name.startswith(OBJECT) and (count := names[:place].count(name)) else name
        for place, name in enumerate(names)
    ]


def _name_of(teacher: Any) -> str:
    if isinstance(teacher, (str, Path)):
        return str(teacher)
    return OBJECT + str(
        getattr(teacher, "__qualname__", None) or getattr(teacher, "name", None) or type(teacher).__qualname__
    )


def is_file(name: str) -> bool:
    """Return whether a teacher is a file of vectors."""
    return name.endswith(_FILES) and not Path(name).is_dir()


def check_teacher(name: str) -> None:
    """Check that there is a teacher of this name, without loading it."""
    if name.startswith((API, OBJECT)):
        return
    if is_file(name):
        open_rows(Path(name))
        return
    check_model(name)


def open_teacher(name: str, given: Any, config: DistillConfig) -> Encoder | RankEncoder:
    """Open a teacher that encodes sentences.

    :param given: The object itself, where it is one; an API that is open already.
    """
    if name.startswith(OBJECT):
        if given is None:
            raise InputError(f"teacher {name.removeprefix(OBJECT)} is a Python object: give it again")
        return open_model(given, device=config.torch_device, batch_size=BATCH)
    if name.startswith(API):
        api = given if isinstance(given, ApiEncoder) else open_api(name, config)
        opened = Encoder(api, batch_size=_SENT)
        opened.name = name
        return opened
    return open_model(name, device=config.torch_device, batch_size=BATCH)


def tokenizer_of(teacher: Encoder | RankEncoder) -> Any:
    """Return a teacher's tokenizer, that of the first of several encoders, or None."""
    encoder = teacher.encoder if isinstance(teacher, RankEncoder) else teacher
    first = encoder.members[0] if isinstance(encoder, FusedEncoder) else encoder
    return getattr(first.model, "tokenizer", None)


def open_api(name: str, config: DistillConfig) -> ApiEncoder:
    """Return the client of an API."""
    return ApiEncoder(name.removeprefix(API), base_url=config.api_base or None)


def static_teacher(config: DistillConfig) -> int:
    """Return the place of the teacher that gives a static student its words: the first that can encode."""
    for number, name in enumerate(config.teacher):
        if not is_file(name):
            return number
    raise InputError("a static student needs a teacher that encodes words: a file of vectors is not enough")


def open_vectors(name: str, sentences: Sentences) -> VectorFile:
    """Open a file of vectors of the training sentences."""
    return VectorFile(Path(name), sentences)
