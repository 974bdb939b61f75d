"""``rankencoder info`` and ``--version``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rankencoder._version import __version__
from rankencoder.cli.console import prepare, print_json, print_table, say
from rankencoder.cli.options import AnyModel, Device, Json


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"rankencoder {__version__}")
        raise typer.Exit


def version(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Unlabeled text in, a better or faster sentence encoder out."""


def info(
    model: AnyModel,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Describe a RankEncoder: its encoder, reference corpus, form and fidelity.

    Example: `rankencoder info my-encoder`
    """
    from rankencoder.encoder_sources import rankencoder_folder

    folder = rankencoder_folder(model)
    if folder is not None:
        print_description(describe(folder), as_json)
        return
    prepare(model)
    from rankencoder.encoders import Encoder

    encoder = Encoder(model, device=device)
    about = {"encoder": encoder.name, "dimension": encoder.dimension, "prompt": encoder.prompt}
    print_json(about) if as_json else print_table(about.items())


def describe(folder: Path) -> dict[str, Any]:
    """Return the description of a saved RankEncoder."""
    from rankencoder.persistence import read_config
    from rankencoder.reference import read_about

    config = read_config(folder, skip="encoder")  # its weights are large
    reference = read_about(folder / "reference")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    about = {key: reference.get(key) for key in ("seed", "counts")}
    return {"folder": str(folder), **config, "reference": about, "bytes_on_disk": size}


def print_description(about: dict[str, Any], as_json: bool) -> None:
    """Print a description as text or JSON."""
    if as_json:
        print_json(about)
        return
    form, fidelity, counts = about["form"], about["fidelity"], about["reference"]["counts"] or {}
    settings = ", ".join(f"{key} {value}" for key, value in form["settings"].items())
    dropped = [f"{counts[key]:,} {key}" for key in ("empty", "overlong") if counts.get(key)]
    if counts.get("duplicates"):
        dropped.append(("about " if counts.get("estimated") else "") + f"{counts['duplicates']:,} duplicates")
    dimension, spearman = about["dimension"], fidelity["spearman"]
    facts = {"RankEncoder": about["folder"]}
    if not about.get("members"):
        facts["encoder"] = _name_encoder(about)
    for number, member in enumerate(about.get("members") or (), start=1):
        facts[f"encoder {number}"] = f"{_name_encoder(member)}, weight {member['weight']:.3f}"
    facts |= {
        "reference": f"{about['reference_size']:,} sentences, seed {about['reference']['seed']}",
        "corpus": f"{counts.get('seen', 0):,} lines" + (f", dropped {', '.join(dropped)}" if dropped else ""),
        "form": form["name"] + (f" ({settings})" if settings else ""),
        "fidelity": f"Spearman {spearman:.4f} with exact rank similarities ({fidelity['pairs']:,} pairs)",
        "rank_weight": about["rank_weight"],
        "vector": f"{dimension:,} dimensions, {4 * dimension / 1000:.1f} kB as float32",
        "on disk": f"{about['bytes_on_disk'] / 1e6:.1f} MB",
    }
    print_table(facts.items())


def _name_encoder(about: dict[str, Any]) -> str:
    return str(about["encoder"]) + ("" if about["encoder_saved"] else " (a callable, not on disk)")
