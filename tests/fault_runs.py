"""Runs the command line in forked processes, which share what was imported once, and disturbs them."""

import contextlib
import ctypes
import gc
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

LIMIT = 600.0  # seconds after which a run counts as hanging, also on a busy machine
PARTS = (
    "rankencoder.vector_files.PART",
    "rankencoder.reference._PART",
    "rankencoder.search.rank_index._PART",
    "rankencoder.evaluation.vector_cache._PART",
    "rankencoder.training.teaching.teachers._PART",
    "rankencoder.training.sentences._BATCH",
)
"""How many sentences are worked on at a time."""
_WRITES = ("os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.truncate", "os.chmod", "shutil.rmtree")


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    :param code: Its exit code; negative for the signal that ended it, None if it hung.
    :param writes: How often it changed something in its folder; None if it did not live to tell.
    """

    code: int | None
    out: str
    err: str
    seconds: float
    writes: int | None

    @property
    def errors(self):
        """What a person sees on the error output, warnings, the first line and those of a plan aside."""
        aside = re.compile(r"warning:|started |recipe |\d+\. ")
        return [line for line in self.err.splitlines() if line and not aside.match(line)]


def prepare():
    """Import what the commands need, and let work be done in small parts, so that there are many."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "COLUMNS": "200"}
    os.environ |= {"MPLBACKEND": "agg", "LANCEDB_LOG": "error"}
    import datasets  # noqa: F401
    import lancedb.background_loop
    import matplotlib.pyplot  # noqa: F401
    import pyarrow.dataset
    import pyarrow.parquet  # noqa: F401
    import pydantic  # noqa: F401
    import sklearn.metrics  # noqa: F401
    import torch
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping

    for name in PARTS:
        module, _, part = name.rpartition(".")
        assert hasattr(import_module(module), part), name
        setattr(import_module(module), part, 40)
    for name in ("rankencoder.evaluation.measurement", "rankencoder.training.loop.stage"):
        import_module(name)
    torch.set_num_threads(1)
    lancedb.background_loop._FORK_WARNED = True  # it starts its threads anew
    get_checkpoint_conversion_mapping("bert")  # takes a while the first time
    gc.collect()
    gc.freeze()  # spares each process the imported modules


def run(arguments, folder, *, kill_after=None, kill_at=None, kill_when=None, obedient=False, largest=None):
    """Run a command in a folder.

    :param kill_after: Kill it after so many seconds.
    :param kill_at: Kill it when it is about to change something in the folder for the so-manieth time.
    :param kill_when: Kill it at its next change after this file is there.
    :param obedient: Let it read only what its owner may read, also if that is root.
    :param largest: Let none of its files be larger than so many bytes.
    """
    began = time.monotonic()
    process = _fork(lambda: _command(arguments, kill_at, kill_when, largest), folder, obedient)
    code = _wait(process, began, kill_after)
    out, err = ((folder / name).read_text(errors="replace") for name in ("stdout", "stderr"))
    with contextlib.suppress(FileNotFoundError):
        return Outcome(code, out, err, time.monotonic() - began, int((folder / "writes").read_text()))
    return Outcome(code, out, err, time.monotonic() - began, None)


def call(function, folder):
    """Return what a function returns in a process of its own, where it may start threads; as JSON has it."""
    result = folder / "returned"

    def store():
        result.write_text(json.dumps(function()))

    code = _wait(_fork(store, folder), time.monotonic(), None)
    assert code == 0, (folder / "stderr").read_text()
    return json.loads(result.read_text())


def _fork(function, folder, obedient=False):
    for name in ("stdout", "stderr"):
        (folder / name).write_text("")  # a process may be killed before it can
    for name in ("writes", "returned"):
        (folder / name).unlink(missing_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    if (process := os.fork()) != 0:
        return process
    code = 1
    try:
        os.chdir(folder)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o666), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ |= {"HOME": str(folder), "RANKENCODER_CACHE": str(folder / "out/cache")}
        if obedient and os.geteuid() == 0:
            _obey_permissions()
        code = function() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _obey_permissions():
    """Give up root's right to read every file (CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the interface; this process
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable: the lower halves, then the upper
    assert libc.capget(header, sets) == 0
    sets[0], sets[1] = sets[0] & ~0b110, sets[1] & ~0b110
    assert libc.capset(header, sets) == 0


def _command(arguments, kill_at, kill_when, largest):
    from rankencoder.cli import main

    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))

    sys.argv = ["rankencoder", *map(str, arguments)]
    writes = _watch_writes(Path.cwd() / "out", kill_at, kill_when)
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    with contextlib.suppress(OSError):
        Path("writes").write_text(str(len(writes)))
    return code


def _watch_writes(folder, kill_at, kill_when):
    """Take down each change below a folder that Python makes, and kill this process at one of them."""
    inside, writes, fsync = str(folder), [], os.fsync

    def note(what):
        writes.append(what)
        if len(writes) == kill_at or (kill_when is not None and kill_when.exists()):
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event, arguments):
        if event == "open":
            writing = (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        else:
            writing = event in _WRITES
        named = writing and isinstance(arguments[0], (str, os.PathLike))
        if named and os.path.abspath(arguments[0]).startswith(inside):
            note(event)

    def noted(handle):
        note("fsync")
        fsync(handle)

    os.fsync = noted
    sys.addaudithook(hook)
    return writes


def _wait(process, began, kill_after):
    """Return the exit code of a process, which is killed if it takes too long."""
    limit = LIMIT if kill_after is None else kill_after
    pause = 0.002
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        left = limit - (time.monotonic() - began)
        if left <= 0:
            os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
            return None if kill_after is None else os.waitstatus_to_exitcode(status)
        time.sleep(min(pause, left))
