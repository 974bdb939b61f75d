"""Save and load a RankEncoder: ``rankencoder.json``, ``form.safetensors``, ``reference/``, ``encoder/``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from typing_extensions import Unpack

from rankencoder._version import __version__
from rankencoder.backends.opening import Opening
from rankencoder.blend import blended_dimension, check_rank_weight
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.forms import Form, restore_form
from rankencoder.forms.fidelity import Fidelity
from rankencoder.fused_encoder import FusedEncoder
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.storage import (
    CONFIG,
    damage_named,
    missing,
    new_folder,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)
from rankencoder.model_card import ModelCard, short_name
from rankencoder.reference import Reference

_FORMAT = 1


@dataclass(frozen=True)
class ModelParts:
    """The parts of a RankEncoder."""

    encoder: Encoder
    reference: Reference
    form: Form
    fidelity: Fidelity
    rank_weight: float

    def config(self) -> dict[str, Any]:
        """Return everything but vectors, for JSON."""
        return {
            "format": _FORMAT,
            "version": __version__,
            **_describe_encoder(self.encoder),
            "rank_weight": self.rank_weight,
            "form": {"name": self.form.name, "settings": self.form.config()},
            "fidelity": asdict(self.fidelity),
            "dimension": blended_dimension(
                self.form.dimension, self.form.reference.shape[1], self.rank_weight
            ),
            "reference_size": len(self.reference),
        }


def save(model: ModelParts, folder: Path, *, overwrite: bool, measured: Sequence[str] = ()) -> None:
    """Save a RankEncoder to a folder (see `RankEncoder.save`)."""
    with new_folder(folder, overwrite=overwrite) as new:
        _save_encoder(model.encoder, new / "encoder")
        (new / "reference").mkdir()
        model.reference.write(new / "reference")
        tensors = {name: tensor.cpu().numpy() for name, tensor in model.form.tensors().items()}
        write_tensors(new / "form.safetensors", tensors)
        write_json(new / CONFIG, model.config())
        write_manifest(new)
        make_card(model, measured).write(new)  # after the manifest: users may edit it


def make_card(model: ModelParts, measured: Sequence[str] = ()) -> ModelCard:
    """Return the model card of a RankEncoder, with additional lines of measurements."""
    config = model.config()
    names = [one["encoder"] for one in config.get("members", [config])]
    shown = " and ".join(map(short_name, names))
    settings = ", ".join(f"{key} {value}" for key, value in config["form"]["settings"].items())
    counts = model.reference.counts
    fused = f"A fusion of the encoders {shown}: one unit vector per sentence."
    one = f"A RankEncoder (ACL 2023) on {shown}: similarities blend cosine with rank similarity (Eq. 7)."
    return ModelCard(
        title=f"Fusion of {shown}" if len(names) > 1 else f"RankEncoder on {shown}",
        about=fused if len(names) > 1 else one,
        figures=[f"Fidelity of the {model.form.name} form to exact ranks: {model.fidelity}", *measured],
        recipe={
            "encoder": ", ".join(f"`{short_name(name)}`" for name in names),
            "dimensions": f"{config['dimension']:,}",
            "form": model.form.name + (f" ({settings})" if settings else ""),
            "rank weight": f"{model.rank_weight:g}",
            "reference corpus": f"{len(model.reference):,} of {counts.get('seen', 0):,} sentences",
        },
        limits=["The folder holds the reference sentences as text: whoever has it can read them."],
        sources=[*map(short_name, names), "the reference corpus"],
        bases=names,
        tags=["sentence-similarity"],
        library="rankencoder",
    )


def _describe_encoder(encoder: Encoder) -> dict[str, Any]:
    """Return an encoder's name, prompt and backend, and whether it is saved; the same for its members."""
    about = {"encoder": encoder.name, "encoder_saved": encoder.model is not None, "prompt": encoder.prompt}
    about["backend"] = asdict(encoder.backend)
    if not isinstance(encoder, FusedEncoder):
        return about
    weighted = zip(encoder.members, encoder.weights, strict=True)
    members = [{**_describe_encoder(member), "weight": weight} for member, weight in weighted]
    return {**about, "encoder_saved": all(one["encoder_saved"] for one in members), "members": members}


def _save_encoder(encoder: Encoder, folder: Path) -> None:
    if isinstance(encoder, FusedEncoder):
        for number, member in enumerate(encoder.members):
            _save_encoder(member, folder / str(number))
    elif encoder.model is not None:
        encoder.model.save_pretrained(str(folder), create_model_card=False)


def read_config(folder: Path, *, skip: str = "") -> dict[str, Any]:
    """Read the configuration of a saved RankEncoder, and check that no file has changed.

    :param skip: A subfolder whose files are not checked.
    """
    if not (folder / CONFIG).exists():
        if (folder / "modules.json").exists():
            raise InputError(f"{folder} is a plain encoder: build a RankEncoder from it first")
        raise InputError(missing(folder / CONFIG))
    config = read_json(folder / CONFIG, _FORMAT)
    check_manifest(folder, skip=skip, known=config.get("sha256"))
    return {"prompt": "", **config}  # earlier versions had no prompts


def load(folder: Path, source: Any, **opening: Unpack[Opening]) -> ModelParts:
    """Load a RankEncoder from a folder (see `RankEncoder.load`)."""
    given = source.members if isinstance(source, FusedEncoder) else source
    is_read = given is None or (isinstance(given, (list, tuple)) and any(one is None for one in given))
    config = read_config(folder, skip="" if is_read else "encoder")
    with damage_named(folder, "a complete RankEncoder", KeyError, TypeError, ValueError, RuntimeError):
        encoder = _load_encoder(folder, config, given, **opening)
        reference = Reference.load(folder / "reference")
        stored = read_tensors(folder / "form.safetensors")
        tensors = {name: torch.from_numpy(array) for name, array in stored.items()}
        form = restore_form(**config["form"], reference=torch.from_numpy(reference.vectors), tensors=tensors)
        rank_weight = check_rank_weight(config["rank_weight"])
        fidelity = Fidelity(**config["fidelity"])
    reference.check_encoder(encoder)
    return ModelParts(encoder, reference, form.to(encoder.device), fidelity, rank_weight)


def _load_encoder(
    owner: Path, about: dict[str, Any], given: Any, folder: str = "", **opening: Any
) -> Encoder:
    """Open the encoder of a RankEncoder, or all members of a fused one: the given one, or the one on disk."""
    if "members" in about:
        members = about["members"]
        sources = [None] * len(members) if given is None else given
        if not isinstance(sources, (list, tuple)) or len(sources) != len(members):
            raise InputError(
                f"{owner} fuses {len(members)} encoders: pass a list, with None for each that is on disk"
            )
        opened = [
            _load_encoder(owner, member, source, str(number), **opening)
            for number, (member, source) in enumerate(zip(members, sources, strict=True))
        ]
        return FusedEncoder(opened, [member["weight"] for member in members])
    if isinstance(given, Encoder):
        return given
    if given is not None:
        return Encoder(given, prompt=about["prompt"], **opening)
    if not about["encoder_saved"]:
        raise InputError(
            f"{owner} was built with the callable {about['encoder']!r}, which is not on disk: "
            "pass it to RankEncoder.load(folder, encoder=...)"
        )
    encoder = Encoder(owner / "encoder" / folder, prompt=about["prompt"], **opening)
    encoder.name = about["encoder"]
    return encoder
