"""A RankEncoder on disk: ``rankencoder.json``, ``form.safetensors``, ``reference/`` and ``encoder/``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder._version import __version__
from rankencoder.blend import check_rank_weight
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.forms import restore_form
from rankencoder.forms.fidelity import Fidelity
from rankencoder.io.pairs import told_at
from rankencoder.io.storage import (
    CONFIG as CONFIG,
)
from rankencoder.io.storage import (
    check_kinds,
    file_digests,
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
    from rankencoder.model import RankEncoder

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


def save(model: RankEncoder, folder: Path, *, overwrite: bool) -> None:
    """Write a RankEncoder to a folder (see `RankEncoder.save`)."""
    with new_folder(folder, overwrite=overwrite) as new:
        if model.encoder.model is not None:
            model.encoder.model.save_pretrained(str(new / "encoder"), create_model_card=False)
        (new / "reference").mkdir()
        model.reference._write(new / "reference")
        tensors = {name: tensor.cpu().numpy() for name, tensor in model.form.tensors().items()}
        write_tensors(new / "form.safetensors", tensors)
        write_json(new / CONFIG, {**_config(model), "sha256": _digests(new)})


def _digests(folder: Path) -> dict[str, str]:
    """Return the digests of all numbers and texts in a folder."""
    files = [*folder.rglob("*.safetensors"), folder / "reference/reference.json"]
    return file_digests(folder, files)


def _config(model: RankEncoder) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "version": __version__,
        "encoder": model.encoder.name,
        "encoder_saved": model.encoder.model is not None,
        "prompt": model.encoder.prompt,
        "rank_weight": model.rank_weight,
        "form": {"name": model.form.name, "settings": model.form.config()},
        "fidelity": model.fidelity.to_dict(),
        "dimension": model.dimension,
        "reference_size": len(model.reference),
    }


def read_config(folder: Path) -> dict[str, Any]:
    """Read what a saved RankEncoder says of itself.

    :raises InputError: If the folder holds none, or one of another format.
    """
    if not (folder / CONFIG).exists():
        if (folder / "modules.json").exists():
            advice = f"rankencoder build {folder} CORPUS -o DIR makes one"
            raise InputError(f"{folder} is an encoder, not a RankEncoder: {advice}")
        raise InputError(f"{missing(folder / CONFIG)}. A RankEncoder is made by: rankencoder build")
    config = read_json(folder / CONFIG)
    if config.get("format") != _FORMAT:
        raise InputError(
            f"{folder} has format {config.get('format')}, this version of rankencoder reads {_FORMAT}"
        )
    config.setdefault("prompt", "")  # of earlier versions
    check_kinds(config, folder / CONFIG, **_KINDS)
    check_kinds(config["form"], folder / CONFIG, name=str, settings=dict)
    check_kinds(config["fidelity"], folder / CONFIG, spearman=float, largest_error=float, pairs=int)
    return config


def _check_whole(folder: Path, config: dict[str, Any], *, own_encoder: bool) -> None:
    """Make sure that numbers and texts are those that were saved.

    :raises InputError: If they are not; folders of earlier versions do not say.
    """
    saved = check_kinds({"sha256": {}, **config}, folder / CONFIG, sha256=dict)["sha256"]
    for name, digest in _digests(folder).items() if saved else ():
        if saved.get(name, digest) != digest and (own_encoder or not name.startswith("encoder/")):
            raise InputError(f"{folder / name} is damaged: it is not what was saved; build it again")


def _check_own(encoder: Encoder, reference: Reference) -> None:
    """Make sure that the encoder of a folder is the one that was saved there.

    :raises InputError: If it is not.
    """
    try:
        reference.check_encoder(encoder)
    except InputError as error:
        raise InputError(f"{encoder.name} is damaged, or another than was saved: {error}") from error


def load(
    cls: type[RankEncoder],
    folder: Path,
    source: EncoderLike | Encoder | None,
    *,
    device: str | None,
    batch_size: int,
) -> RankEncoder:
    """Read a RankEncoder from a folder (see `RankEncoder.load`)."""
    import torch

    config = read_config(folder)
    reference = Reference.load(folder / "reference")
    tensors = {
        name: torch.from_numpy(array) for name, array in read_tensors(folder / "form.safetensors").items()
    }
    try:
        if source is None and not config["encoder_saved"]:
            raise InputError(
                f"{folder} was built with the callable {config['encoder']!r}, which is not on disk: "
                "give it to RankEncoder.load(folder, encoder=...)"
            )
        with told_at(str(folder)):
            form = restore_form(
                config["form"]["name"],
                config["form"]["settings"],
                torch.from_numpy(reference.vectors),
                tensors,
            )
            check_rank_weight(config["rank_weight"])
        fidelity = Fidelity(**config["fidelity"])
        rank_weight = float(config["rank_weight"])
        name = config["encoder"]
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / CONFIG} is damaged ({error}); build it again") from error
    if isinstance(source, Encoder):
        encoder = source
    else:
        path = folder / "encoder" if source is None else source
        encoder = Encoder(path, prompt=config["prompt"], device=device, batch_size=batch_size)
    if source is None:
        _check_own(encoder, reference)
        encoder.name = name
    else:
        reference.check_encoder(encoder)
    _check_whole(folder, config, own_encoder=source is None)  # last: what is above says more
    model = cls._assemble(encoder, reference, form.to(encoder.device), fidelity, rank_weight)
    model.name = str(folder)
    return model
