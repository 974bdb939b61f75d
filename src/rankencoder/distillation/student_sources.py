"""Load the student, and recognize its kind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.distillation.distill_config import STATIC, DistillConfig, Kind
from rankencoder.encoder_sources import (
    check_encoder_name,
    encoder_folder,
    load_sentence_transformer,
    split_prompt,
)
from rankencoder.errors import InputError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_PROMPT = "distilled"


def student_kind(config: DistillConfig) -> Kind:
    """Return what kind of student is wanted, once there is one of its name."""
    if not config.student:
        raise InputError("no student: set `student` to an encoder, or to 'static'")
    if config.student == STATIC:
        return "static"
    name = split_prompt(config.student)[0]
    check_encoder_name(name)
    if config.layers:
        return "layers"
    folder = Path(encoder_folder(name))
    if folder.is_dir() and not (folder / "modules.json").exists():
        return "backbone"
    return "static encoder" if _is_static(folder) else "encoder"


def _is_static(folder: Path) -> bool:
    """Return whether an encoder is static; the modules of a hub name are in the cache by now."""
    from huggingface_hub import try_to_load_from_cache

    modules: Any = folder / "modules.json"
    if not folder.is_dir():
        cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
        modules = try_to_load_from_cache(str(folder), modules.name, cache)
    return isinstance(modules, (str, Path)) and "StaticEmbedding" in Path(modules).read_text(encoding="utf-8")


def load_student(config: DistillConfig) -> SentenceTransformer:
    """Load the encoder that is taught, or whose layers are; a prompt in its name becomes its default."""
    name, prompt = split_prompt(config.student)
    model = load_sentence_transformer(name, revision=None, device=config.torch_device)
    if prompt:
        model.prompts[_PROMPT] = prompt
        model.default_prompt_name = _PROMPT
    return model
