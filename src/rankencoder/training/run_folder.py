"""The output folder of a training: new, resumed or replaced, and never lost by a mistake."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rankencoder.errors import InputError
from rankencoder.io.storage import RUN, check_free, is_empty, read_json
from rankencoder.training.config import Given, TrainConfig, read_given
from rankencoder.training.gather import is_first_process
from rankencoder.training.run_outputs import SETTINGS, write_record

WORK = "work"


@dataclass
class Claim:
    """An output folder to work in.

    :param accept: To be called with the resolved settings once the input has proved usable.
    """

    folder: Path
    given: Given
    accept: Callable[[TrainConfig], None]

    @property
    def work(self) -> Path:
        """Where checkpoints and vectors are kept until the end."""
        return self.folder / WORK


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Keep all other trainings out of a folder.

    :raises InputError: If another process trains there.
    """
    from filelock import FileLock, Timeout

    output.parent.mkdir(parents=True, exist_ok=True)
    file = output.with_name(f".{output.name}.lock")
    try:
        with FileLock(file, timeout=0):
            yield
            file.unlink(missing_ok=True)
    except Timeout:
        raise InputError(f"another process is training into {output}: wait for it, or stop it") from None


@contextmanager
def claim_folder(given: Given, names: set[str], *, resume: bool, overwrite: bool) -> Iterator[Claim]:
    """Give the folder of a run to work in; if the input proves unusable, all is as before.

    :param given: The settings asked for.
    :param names: The names of those that are no file's, which a resumed run must have too.
    :raises InputError: If the folder holds a run that is neither to be resumed nor replaced.
    """
    output = Path(given.values["output"])
    if resume:
        yield Claim(output, _resumed(output, given, names), lambda _: None)
        return
    if not is_first_process():
        yield Claim(output, given, lambda _: None)
        return
    aside = output.with_name(f".{output.name}.replaced")
    if aside.exists() and not (output / SETTINGS).exists():
        _undo(output, aside, existed=True)  # a replacement was killed before it was accepted
    existed = output.exists()
    occupied = _check_occupied(output, given.draft, overwrite)
    if occupied:
        shutil.rmtree(aside, ignore_errors=True)
        os.replace(output, aside)

    def accept(resolved: TrainConfig) -> None:
        given.write(output / SETTINGS, resolved)
        shutil.rmtree(aside, ignore_errors=True)

    try:
        write_record(output, {"finished": False})  # whatever happens now, the folder is known for ours
        yield Claim(output, given, accept)
    except BaseException as error:
        if not (output / SETTINGS).exists():
            _undo(output, aside, existed)
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt("nothing was written yet") from None
        raise


def _undo(output: Path, aside: Path, existed: bool) -> None:
    shutil.rmtree(output, ignore_errors=True)
    if aside.exists():
        os.replace(aside, output)
    elif existed:
        output.mkdir()


def _check_occupied(output: Path, config: TrainConfig, overwrite: bool) -> bool:
    """Say whether there is a run that may be replaced."""
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file: choose another name for the output folder")
    if not output.exists() or is_empty(output):
        return False
    if not overwrite:
        raise InputError(
            f"{output} already holds {_what(output)}: use --resume, --overwrite or another folder"
        )
    check_free(output, overwrite=True)
    given = [("base_encoder", name) for name in config.base_encoder]
    given += [("dev", file) for file in config.dev]
    given += [(f"option {name}", value) for name, value in config.options.items() if isinstance(value, str)]
    for name, value in [("corpus", config.corpus), ("backbone", config.backbone), *given]:
        if value and Path(value).is_relative_to(output):
            raise InputError(f"{name} {value} is in the folder that would be overwritten: use another output")
    return True


def _what(folder: Path) -> str:
    if not (folder / RUN).exists():
        return "something else"
    return "a finished training" if read_json(folder / RUN).get("finished") else "an unfinished training"


def _resumed(output: Path, given: Given, names: set[str]) -> Given:
    """Return the settings of the run to resume."""
    if not (output / SETTINGS).exists():
        begun = (output / RUN).exists()
        advice = "it stopped before its corpus was read, use --overwrite" if begun else "leave --resume out"
        raise InputError(f"there is no training to resume in {output}: {advice}")
    if read_json(output / RUN).get("finished") or not (output / WORK).exists():
        shutil.rmtree(output / WORK, ignore_errors=True)
        raise InputError(f"the training in {output} is finished, there is nothing to resume")
    stored = read_given({"output": str(output)}, output / SETTINGS)
    for name in sorted(names & given.values.keys()):
        asked, begun = given.values[name], getattr(stored.draft, name)
        if asked != begun:
            raise InputError(
                f"cannot resume {output} with {name} {asked!r}, it was begun with "
                f"{begun!r}: leave that out, or begin anew in another folder"
            )
    return stored
