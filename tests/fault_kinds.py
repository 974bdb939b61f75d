"""The faults: each disturbs a command, or what it left, and says how that ended."""

import contextlib
import os
import random
import shutil
import subprocess
from dataclasses import dataclass

from fault_lab import OUTPUTS, REPLACED
from fault_runs import run

_PAGE = 4096  # bytes, of which a disk in memory is made
EQUAL, ERROR, UNNOTICED, FAILED = "equal", "clear error", "not noticed", "FAILED"


@dataclass(frozen=True)
class Verdict:
    """How a case ended.

    :param what: "equal": it completed, sooner or later, with the undisturbed result. "clear error": one line
        that names the file, exit code 2. "not noticed": it completed with another result. Or "FAILED".
    :param row: What was disturbed, for the table.
    """

    what: str
    row: str
    why: str = ""


class _Failure(Exception):
    """Something that must not happen."""


def is_clear(ended, folder, *names):
    """Say whether a run ended with one line that names a file or folder, or what it is named after."""
    if ended.code != 2 or len(ended.errors) != 1 or not ended.errors[0].startswith("error:"):
        return False
    return any(str(name) in ended.errors[0] for name in (f"{folder}/out/", "out/", *names))


def _check_clear(ended, folder, *names):
    if not is_clear(ended, folder, *names):
        raise _Failure(f"exit code {ended.code}, and not one line that names a file:\n{ended.err[-2000:]}")


def killed(lab, name, draw, folder):
    """Kill a command at a random time, or when it is about to write; then do as the documentation says."""
    whole, expected, _ = lab.undisturbed(name)
    older = _put_older(lab, name, draw, folder)
    arguments = lab.command(name, overwrite=older is not None)
    moment = draw.random()
    if draw.random() < 0.5:
        ended = run(arguments, folder, kill_after=moment * whole.seconds)
    else:
        ended = run(arguments, folder, kill_at=1 + int(moment * whole.writes))
    if ended.code not in (-9, 0):
        raise _Failure(f"ended by itself with {ended.code}: {ended.err[-2000:]}")
    row = name if name != "train" else f"train, stage {1 + (folder / 'out/run/base').exists()}"
    _check_older(lab, name, folder, older, expected)
    _repeat(lab, name, folder, expected, overwrite=older is not None)
    return Verdict(EQUAL, row)


def disk_full(lab, name, draw, folder):
    """Let a disk be too small for a command's output; then make room, and repeat the command."""
    expected = lab.undisturbed(name)[1]
    older = _put_older(lab, name, draw, folder)
    arguments = lab.command(name, overwrite=older is not None)
    with _small_disk(lab, name, draw, folder) as (options, make_room):
        ended = run(arguments, folder, **options)
        if ended.code != 0:
            _check_clear(ended, folder)
            _check_older(lab, name, folder, older, expected)
            make_room()
        _repeat(lab, name, folder, expected, overwrite=older is not None)
    return Verdict(ERROR if ended.code else EQUAL, name)


@contextlib.contextmanager
def _small_disk(lab, name, draw, folder):
    """Give the output a disk of its own or, where nothing may be mounted, let files only be small."""
    out, share, moved = folder / "out", draw.uniform(0.02, 0.95), folder / "held"
    held = sum(_PAGE * (1 + path.stat().st_size // _PAGE) for path in out.rglob("*"))
    os.replace(out, moved)
    out.mkdir()
    size = held + int(share * lab.size(name))
    mounted = os.geteuid() == 0 and _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", out)
    try:
        shutil.copytree(moved, out, dirs_exist_ok=True)
        if mounted:
            yield {}, lambda: _mount("-o", "remount,size=1g", out)
        else:
            largest = max(path.stat().st_size for path in lab.undisturbed(name)[2].rglob("*"))
            yield {"largest": max(1, int(share * largest))}, lambda: None
    finally:
        if mounted:
            subprocess.run(["umount", out], check=True)


def _mount(*arguments):
    return subprocess.run(["mount", *map(str, arguments)], capture_output=True).returncode == 0


def unreadable(lab, name, draw, folder):
    """Let a file that a command may read be a folder, or closed to it; then mend that, and repeat."""
    expected = lab.undisturbed(name)[1]
    file = draw.choice(lab.inputs_of(name))
    aside = file.with_name(f"{file.name}.aside")
    forbidden = draw.random() < 0.5
    mode = file.stat().st_mode
    try:
        if forbidden:
            file.chmod(0)
        else:
            os.replace(file, aside)
            file.mkdir()
        ended = run(lab.command(name), folder, obedient=forbidden)
    finally:
        if forbidden:
            file.chmod(mode)
        else:
            file.rmdir()
            os.replace(aside, file)
    if ended.code != 0:
        _check_clear(ended, folder, file, file.parent)
    _repeat(lab, name, folder, expected)
    return Verdict(ERROR if ended.code else EQUAL, name)


def damaged(lab, subject, draw, folder, *, flip, number):
    """Damage one file of what was saved, and use it."""
    saved = lab.saved(subject)
    shutil.copytree(saved.folder, folder / "out", dirs_exist_ok=True, symlinks=True)
    file = folder / "out" / saved.files[number]
    before = file.stat()
    data = bytearray(file.read_bytes())
    if flip:
        data[draw.randrange(len(data))] ^= draw.randrange(1, 256)
    else:
        del data[draw.randrange(len(data)) :]
    file.write_bytes(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    ended, found = saved.use(folder)
    if ended.code != 0:
        _check_clear(ended, folder)
        return Verdict(ERROR, subject, ended.errors[0])
    if ended.errors:
        raise _Failure(f"completed, but said: {ended.err[-2000:]}")
    return Verdict(EQUAL if found == saved.expected else UNNOTICED, subject, str(saved.files[number]))


def _put_older(lab, name, draw, folder):
    """Let there be an earlier output to be replaced, every other time where that is possible."""
    if name not in REPLACED or draw.random() < 0.5:
        return None
    out = lab.undisturbed(name, older=True)[2]
    source = out / OUTPUTS[name]
    target = folder / "out" / OUTPUTS[name]
    if source.is_file():
        shutil.copy2(source, target)
    else:
        shutil.copytree(source, target)
    return lab.result(name, folder)  # not that of the run itself, whose files name its folder


def _check_older(lab, name, folder, older, expected):
    """Make sure that an earlier output is still there, or the new one in its place."""
    if older is None or (name == "train" and (folder / "out/run/train.yaml").exists()):
        return  # a training deletes it once its own input has proved usable
    places = [folder / "out" / OUTPUTS[name], folder / "out" / f".{OUTPUTS[name]}.previous"]
    if not any(lab.result(name, folder, place) in (older, expected) for place in places):
        raise _Failure("the earlier output is lost, and there is no new one")


def _repeat(lab, name, folder, expected, *, overwrite=False):
    """Go on as the documentation says, and compare with the undisturbed result."""
    ended = _go_on(lab, name, folder, overwrite)
    if ended.code != 0:
        raise _Failure(f"the same command again fails with {ended.code}: {ended.err[-2000:]}")
    found = lab.result(name, folder)
    if found != expected:
        differ = [key for key in {**expected, **(found or {})} if expected.get(key) != (found or {}).get(key)]
        raise _Failure(f"another result: {differ}")
    own = f".{OUTPUTS[name]}."
    if litter := [path.name for path in (folder / "out").iterdir() if path.name.startswith(own)]:
        raise _Failure(f"left behind: {litter}")


def _go_on(lab, name, folder, overwrite):
    if name == "train":
        ended = run(["train", "--resume", "-o", "out/run"], folder)
        if ended.code == 2 and "leave out --resume" in ended.err:
            return run(lab.command(name, overwrite=overwrite), folder)
        if ended.code == 2 and "use --overwrite" in ended.err:
            return run(lab.command(name, overwrite=True), folder)
        if ended.code == 2 and "finished: nothing to resume" in ended.err:
            return run(["info", "out/run/rankencoder"], folder) if not overwrite else _again(lab, folder)
        return ended
    ended = run(lab.command(name, overwrite=overwrite), folder)
    if ended.code == 2 and "already exists" in ended.err:
        return run(["info", "out/model"] if name == "build" else ["--help"], folder)
    return ended


def _again(lab, folder):
    """Train anew: what is finished may be what was there before."""
    return run(lab.command("train", overwrite=True), folder)


KINDS = {"kill": killed, "disk": disk_full, "unreadable": unreadable}


def run_case(lab, case):
    """Run a case and return its verdict."""
    draw = random.Random(str(case))
    folder = lab.new_folder("case")
    try:
        if case.kind in KINDS:
            return KINDS[case.kind](lab, case.subject, draw, folder)
        flip = case.kind == "flip"
        return damaged(lab, case.subject, draw, folder, flip=flip, number=case.number)
    except _Failure as failure:
        return Verdict(FAILED, case.subject, str(failure))
