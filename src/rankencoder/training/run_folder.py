"""Lock, create, resume and replace the output folder of a training."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from rankencoder.encoder_sources import split_prompt
from rankencoder.errors import InputError, Interrupted
from rankencoder.io.storage import RUN, check_free, check_kinds, previous_folder, read_json, replace_folder
from rankencoder.training.run_outputs import write_record
from rankencoder.training.run_settings import GivenSettings, RunSettings
from rankencoder.training.settings_file import write_settings

WORK = "work"
G = TypeVar("G", bound=GivenSettings)


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Lock a folder against other trainings; after Ctrl-C, say that the training can be resumed."""
    file = output.with_name(f".{output.name}.lock")
    lock = FileLock(file, timeout=0)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        file.touch()  # if this fails, the lock would just wait
        lock.acquire()
    except Timeout:
        raise InputError(f"another process is training into {output}: wait for it or stop it") from None
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror}; choose another output folder") from error
    try:
        yield
    except KeyboardInterrupt as stop:
        if stop.args or not (output / WORK).exists():
            raise
        raise Interrupted(output) from None
    finally:
        with suppress(PermissionError):  # Windows cannot delete open files
            file.unlink(missing_ok=True)
        lock.release()


def resumed_settings(output: Path, given: G, read: Callable[[dict[str, str], Path], G]) -> G:
    """Return the settings of the run to resume; settings given again must be the same.

    :param read: Reads the settings of a file, given the output folder.
    """
    file = output / type(given.draft).file
    if not file.exists():
        raise InputError(f"no training to resume in {output}: leave out `resume`")
    shutil.rmtree(previous_folder(output), ignore_errors=True)  # left by a run that it replaced
    record = read_json(output / RUN)
    if record.get("finished") or not (output / WORK).exists():
        shutil.rmtree(output / WORK, ignore_errors=True)
        raise InputError(f"the training in {output} is finished: nothing to resume")
    config = check_kinds({"config": {}, **record}, output / RUN, config=dict)["config"]
    if "rounds" in config:
        raise InputError(f"the training in {output} was started by an earlier version: set `overwrite`")
    stored = read({"output": str(output)}, file)
    for name, value in sorted(given.values.items()):
        before = stored.values.get(name, config.get(name, getattr(stored.draft, name)))
        if value != before:
            raise InputError(
                f"cannot resume {output} with {name} {value!r}, it began with {before!r}: leave it out, or "
                "use another output folder"
            )
    return stored


@contextmanager
def new_run(output: Path, given: GivenSettings, config: RunSettings, *, overwrite: bool) -> Iterator[Path]:
    """Yield a folder for a new run's input, which becomes the output folder if the block succeeds.

    From then on the run can be resumed.
    """
    _check_free(output, config, overwrite)
    new = output.with_name(f".{output.name}.new")
    shutil.rmtree(new, ignore_errors=True)  # left by a run killed while reading
    try:
        yield new
        write_record(new, {"finished": False})
        write_settings(new / config.file, given.values, config.model_dump())
        if output.is_dir() and not any(output.iterdir()):  # keep a mount point or current folder
            for path in sorted(new.iterdir(), key=lambda path: path.name == config.file):  # settings last
                shutil.move(path, output / path.name)
        else:
            replace_folder(new, output)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was written yet") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _check_free(output: Path, config: RunSettings, overwrite: bool) -> None:
    """Check that the output folder holds nothing but a run that may be replaced."""
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file: choose another output folder")
    if not output.exists() or not any(output.iterdir()):
        return
    if not overwrite:
        found, ways = "something else", "another folder"
        if (output / RUN).exists():
            finished = read_json(output / RUN).get("finished")
            found = f"{'a finished' if finished else 'an unfinished'} run"
            ways = f"{'' if finished else '`resume`, '}`overwrite` or another folder"
        raise InputError(f"{output} contains {found}: use {ways}")
    check_free(output, overwrite=True, training=True)
    settings = config.model_dump(exclude={"output"})
    for name, value in {**settings, **settings.get("options", {})}.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and Path(split_prompt(text)[0]).is_relative_to(output):
                raise InputError(f"{name} {text} is in the folder to overwrite: choose another output folder")
