"""A RankEncoder on disk: ``rankencoder.json``, ``form.safetensors``, ``reference/`` and ``encoder/``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder._version import __version__
from rankencoder.blend import blended_dimension, check_rank_weight
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.forms import restore_form
from rankencoder.forms.fidelity import Fidelity
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
from rankencoder.reference import Reference

if TYPE_CHECKING:
    from rankencoder.encoders import EncoderLike
    from rankencoder.forms import Form

_FORMAT = 1


@dataclass(frozen=True)
class ModelParts:
    """What a RankEncoder consists of."""

    encoder: Encoder
    reference: Reference
    form: Form
    fidelity: Fidelity
    rank_weight: float

    def config(self) -> dict[str, Any]:
        """Return all of it that is no vector, to be stored as JSON."""
        dimension = blended_dimension(self.form.dimension, self.form.reference.shape[1], self.rank_weight)
        return {
            "format": _FORMAT,
            "version": __version__,
            "encoder": self.encoder.name,
            "encoder_saved": self.encoder.model is not None,
            "prompt": self.encoder.prompt,
            "rank_weight": self.rank_weight,
            "form": {"name": self.form.name, "settings": self.form.config()},
            "fidelity": asdict(self.fidelity),
            "dimension": dimension,
            "reference_size": len(self.reference),
        }


def save(model: ModelParts, folder: Path, *, overwrite: bool) -> None:
    """Write a RankEncoder to a folder (see `RankEncoder.save`)."""
    with new_folder(folder, overwrite=overwrite) as new:
        if model.encoder.model is not None:
            model.encoder.model.save_pretrained(str(new / "encoder"), create_model_card=False)
        (new / "reference").mkdir()
        model.reference.write(new / "reference")
        tensors = {name: tensor.cpu().numpy() for name, tensor in model.form.tensors().items()}
        write_tensors(new / "form.safetensors", tensors)
        write_json(new / CONFIG, model.config())
        write_manifest(new)


def read_config(folder: Path, *, skip: str = "") -> dict[str, Any]:
    """Read what a saved RankEncoder says of itself, once its files are those that were saved.

    :param skip: Do not check files of this sub-folder.
    """
    if not (folder / CONFIG).exists():
        if (folder / "modules.json").exists():
            raise InputError(f"{folder} is a plain encoder: build a RankEncoder from it first")
        raise InputError(missing(folder / CONFIG))
    config = read_json(folder / CONFIG, _FORMAT)
    check_manifest(folder, skip=skip, known=config.get("sha256"))
    return {"prompt": "", **config}  # earlier versions knew no prompts


def load(
    folder: Path, source: EncoderLike | Encoder | None, *, device: str | None, batch_size: int
) -> ModelParts:
    """Read a RankEncoder from a folder (see `RankEncoder.load`)."""
    import torch

    config = read_config(folder, skip="" if source is None else "encoder")
    with damage_named(folder, "a whole RankEncoder", KeyError, TypeError, ValueError, RuntimeError):
        if source is None and not config["encoder_saved"]:
            raise InputError(
                f"{folder} was built with the callable {config['encoder']!r}, which is not on disk: "
                "give it to RankEncoder.load(folder, encoder=...)"
            )
        reference = Reference.load(folder / "reference")
        stored = read_tensors(folder / "form.safetensors")
        tensors = {name: torch.from_numpy(array) for name, array in stored.items()}
        form = restore_form(**config["form"], reference=torch.from_numpy(reference.vectors), tensors=tensors)
        rank_weight = check_rank_weight(config["rank_weight"])
        fidelity = Fidelity(**config["fidelity"])
    if isinstance(source, Encoder):
        encoder = source
    else:
        given = folder / "encoder" if source is None else source
        encoder = Encoder(given, prompt=config["prompt"], device=device, batch_size=batch_size)
        encoder.name = config["encoder"] if source is None else encoder.name
    reference.check_encoder(encoder)
    return ModelParts(encoder, reference, form.to(encoder.device), fidelity, rank_weight)
