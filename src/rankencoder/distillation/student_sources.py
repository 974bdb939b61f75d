"""Students as they are before they are taught, and the scale that their cosines are to keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankencoder.distillation.distill_config import RECIPES, STATIC, DistillConfig, Kind
from rankencoder.encoder_sources import (
    check_encoder_name,
    encoder_folder,
    load_sentence_transformer,
    split_prompt,
)
from rankencoder.errors import InputError
from rankencoder.io.storage import RUN, read_json

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
    plain = folder.is_dir() and not (folder / "modules.json").exists()
    return "backbone" if plain else "encoder"


def resumed_kind(folder: Path) -> Kind | None:
    """Return what kind of student a begun run has, if its record says so."""
    kind = read_json(folder / RUN).get("student", {}).get("kind")
    return kind if kind in RECIPES else None


def load_student(config: DistillConfig) -> SentenceTransformer:
    """Load the encoder that is taught, or whose layers are; a prompt in its name becomes its default."""
    name, prompt = split_prompt(config.student)
    model = load_sentence_transformer(name, revision=None, device=config.torch_device)
    if prompt:
        model.prompts[_PROMPT] = prompt
        model.default_prompt_name = _PROMPT
    return model
