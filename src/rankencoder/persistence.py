"""A RankEncoder on disk: ``rankencoder.json``, ``form.safetensors``, ``reference/`` and ``encoder/``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder._version import __version__
from rankencoder.blend import blended_dimension, check_rank_weight
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError, located
from rankencoder.forms import restore_form
from rankencoder.forms.fidelity import Fidelity
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.storage import (
    CONFIG,
    check_kinds,
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
_KINDS = {
    "encoder": str,
    "encoder_saved": bool,
    "prompt": str,
    "rank_weight": float,
    "form": dict,
    "fidelity": dict,
    "dimension": int,
    "reference_size": int,
}
_FIDELITY = {"spearman": float, "largest_error": float, "pairs": int}


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


def read_config(folder: Path) -> dict[str, Any]:
    """Read what a saved RankEncoder says of itself."""
    if not (folder / CONFIG).exists():
        if (folder / "modules.json").exists():
            raise InputError(f"{folder} is a plain encoder: build a RankEncoder from it first")
        raise InputError(missing(folder / CONFIG))
    config = read_json(folder / CONFIG, _FORMAT)
    config.setdefault("prompt", "")  # of earlier versions
    check_kinds(config, folder / CONFIG, **_KINDS)
    check_kinds(config["form"], folder / CONFIG, name=str, settings=dict)
    check_kinds(config["fidelity"], folder / CONFIG, **_FIDELITY)
    return config


def load(
    folder: Path, source: EncoderLike | Encoder | None, *, device: str | None, batch_size: int
) -> ModelParts:
    """Read a RankEncoder from a folder (see `RankEncoder.load`)."""
    import torch

    config = read_config(folder)
    if source is None and not config["encoder_saved"]:
        raise InputError(
            f"{folder} was built with the callable {config['encoder']!r}, which is not on disk: "
            "give it to RankEncoder.load(folder, encoder=...)"
        )
    reference = Reference.load(folder / "reference")
    stored = read_tensors(folder / "form.safetensors")
    tensors = {name: torch.from_numpy(array) for name, array in stored.items()}
    vectors = torch.from_numpy(reference.vectors)
    open_encoder = partial(Encoder, prompt=config["prompt"], device=device, batch_size=batch_size)
    with located(str(folder)):
        form = restore_form(config["form"]["name"], config["form"]["settings"], vectors, tensors)
        rank_weight = check_rank_weight(config["rank_weight"])
    fidelity = Fidelity(*(config["fidelity"][name] for name in _FIDELITY))
    if source is None:
        encoder = open_encoder(folder / "encoder")
        encoder.name = config["encoder"]
        with located(f"{folder / 'encoder'} is damaged, or another than was saved"):
            reference.check_encoder(encoder)
    else:
        encoder = source if isinstance(source, Encoder) else open_encoder(source)
        reference.check_encoder(encoder)
    check_manifest(folder, skip="" if source is None else "encoder")  # last: what is above says more
    return ModelParts(encoder, reference, form.to(encoder.device), fidelity, rank_weight)
