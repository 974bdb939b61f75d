"""The output folder of a training: new, resumed or replaced, and never lost by a mistake."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rankencoder.errors import InputError
from rankencoder.storage import check_free
from rankencoder.training.config import TrainConfig, make_config
from rankencoder.training.outputs import RECORD, SETTINGS, write_record
from rankencoder.training.settings_file import write_settings


@dataclass
class Claim:
    """An output folder to work in.

    :param accept: To be called with the final settings once the input has proved usable.
    """

    folder: Path
    work: Path
    config: TrainConfig
    accept: Callable[[TrainConfig], None]


@contextmanager
def claim_folder(
    output: Path, config: TrainConfig, given: set[str], *, resume: bool, overwrite: bool
) -> Iterator[Claim]:
    """Give the folder of a run to work in; if the input proves unusable, all is as before.

    :param config: The settings asked for.
    :param given: The names of those that were given, which a resumed run must have too.
    :raises InputError: If the folder holds a run that is neither to be resumed nor replaced.
    """
    output = output.resolve()
    if resume:
        yield _resumed(output, config, given)
        return
    if os.environ.get("RANK", "0") != "0":  # of several processes, the first sees to the folder
        yield Claim(output, output / "work", config, lambda _: None)
        return
    occupied = output.is_dir() and any(output.iterdir())
    if occupied and not overwrite:
        raise InputError(
            f"{output} already holds {_what(output)}: use --resume, --overwrite or another folder"
        )
    check_free(output, overwrite=overwrite or not occupied)
    aside = output.with_name(f".{output.name}.previous")
    if occupied:
        shutil.rmtree(aside, ignore_errors=True)
        os.replace(output, aside)

    def accept(final: TrainConfig) -> None:
        write_settings(output / SETTINGS, vars(final))
        shutil.rmtree(aside, ignore_errors=True)

    try:
        write_record(output, {"finished": False})  # whatever happens now, the folder is known for ours
        yield Claim(output, output / "work", config, accept)
    except BaseException:
        if not (output / SETTINGS).exists():
            shutil.rmtree(output, ignore_errors=True)
            if aside.exists():
                os.replace(aside, output)
        raise


def _what(folder: Path) -> str:
    if not (folder / RECORD).exists():
        return "something else"
    unfinished = (folder / "work").exists()
    return "an unfinished training" if unfinished else "a finished training"


def _resumed(output: Path, config: TrainConfig, given: set[str]) -> Claim:
    if not (output / SETTINGS).exists():
        begun = (output / RECORD).exists()
        advice = "it stopped before its corpus was read, use --overwrite" if begun else "leave --resume out"
        raise InputError(f"there is no training to resume in {output}: {advice}")
    if not (output / "work").exists():
        raise InputError(f"the training in {output} is finished, there is nothing to resume")
    stored = make_config({}, output / SETTINGS)
    config.options = {**stored.options, **config.options}  # not all of them need to be given again
    for name in sorted(given - {"output"}):
        if getattr(config, name) != getattr(stored, name):
            raise InputError(
                f"cannot resume {output} with {name} {getattr(config, name)!r}, it was begun with "
                f"{getattr(stored, name)!r}: leave that out, or begin anew in another folder"
            )
    stored.output = str(output)
    return Claim(output, output / "work", stored, lambda _: None)
