"""Processes of Python that begin with everything imported: forks of one that did so once.

`Popen` and `run` stand in for those of subprocess where the command is ``[sys.executable, …]``: a script,
``-m module`` or ``-c code``. A process has its own pid, signals, exit code and environment, and begins in a
tenth of a second, where a new one imports torch for seconds. What is decided when Python starts
(PYTHONHASHSEED) or when a module is imported cannot be given to it.
"""

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL


class Popen:
    """A process, begun; the parameters are those of `subprocess.Popen`.

    Its output goes to files, so that it never waits for a reader.
    """

    def __init__(
        self,
        command,
        *,
        cwd=None,
        env=None,
        stdin=None,
        stdout=None,
        stderr=None,
        text=False,
        start_new_session=False,
    ):
        self.args, self.returncode, self._text = [str(word) for word in command], None, text
        assert self.args[0] == sys.executable
        self._status = Path(tempfile.mkdtemp(dir=_folder(), prefix="process-")) / "status"
        places = {name: self._place(name, to) for name, to in (("stdout", stdout), ("stderr", stderr))}
        request = {
            "arguments": self.args[1:],
            "cwd": str(cwd or Path.cwd()),
            "env": {name: str(value) for name, value in (env or os.environ).items()},
            "session": start_new_session,
            "status": str(self._status),
            **places,
        }
        self.pid = _ask(request)
        self.stdout = self._reader(places["stdout"], stdout)
        self.stderr = self._reader(places["stderr"], stderr)

    def _place(self, name, to):
        if to is PIPE:
            return str(self._status.with_name(name))
        if to is STDOUT or to is None:
            return to and "stdout"
        return os.devnull if to is DEVNULL else to.name

    def _reader(self, place, to):
        if to is not PIPE:
            return None
        Path(place).touch()
        return open(place, **({"encoding": "utf-8", "errors": "replace"} if self._text else {"mode": "rb"}))

    def poll(self):
        if self.returncode is None and self._status.exists():
            self.returncode = int(self._status.read_text())
        return self.returncode

    def wait(self, timeout=None):
        end = time.monotonic() + (timeout or 1e9)
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(self.args, timeout)
            _check()
            time.sleep(0.005)
        return self.returncode

    def communicate(self, timeout=None):
        self.wait(timeout)
        return tuple(stream and stream.read() for stream in (self.stdout, self.stderr))

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wait()


def run(command, *, capture_output=False, check=False, timeout=None, **options):
    """Run a command to its end, as `subprocess.run` does."""
    if capture_output:
        options |= {"stdout": PIPE, "stderr": PIPE}
    process = Popen(command, **options)
    try:
        out, err = process.communicate(timeout)
    except BaseException:
        process.kill()
        raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


@cache
def _folder():
    """Where outputs and exit codes go."""
    folder = tempfile.TemporaryDirectory(prefix="warm-")
    atexit.register(folder.cleanup)
    return folder.name


@cache
def _parent():
    """The process that has imported everything; it ends with this one."""
    parent = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for this process
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    atexit.register(parent.stdin.close)
    return parent


def _check():
    assert _parent().poll() is None, "the process that forks has died"


def _ask(request):
    _check()
    parent = _parent()
    parent.stdin.write(json.dumps(request) + "\n")
    parent.stdin.flush()
    return int(parent.stdout.readline())


def _import_much():
    """Import what most processes need of others; our own package is imported soon, and not by all."""
    import contextlib

    for name in (
        "datasets",
        "lancedb.background_loop",
        "matplotlib.pyplot",
        "pyarrow.dataset",
        "pyarrow.parquet",
        "sklearn.metrics",
        "sentence_transformers",
        "transformers.trainer",
        "transformers.models.bert.modeling_bert",
        "typer",
        "uvicorn",
    ):
        with contextlib.suppress(ImportError):
            __import__(name)
    if background := sys.modules.get("lancedb.background_loop"):
        background._FORK_WARNED = True  # it starts its threads anew
    import gc

    gc.collect()
    gc.freeze()


def _serve():
    """Fork a process for each request; return in that one, with the request."""
    children = {}
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if wake in ready:
                os.read(wake, 4096)
            _bury(children)
            if sys.stdin.fileno() in ready:
                line = os.read(sys.stdin.fileno(), 1 << 20)
                while line and not line.endswith(b"\n"):
                    line += os.read(sys.stdin.fileno(), 1 << 20)
                if not line:
                    break
                request = json.loads(line)
                if (child := os.fork()) == 0:
                    break
                children[child] = request["status"]
                print(child, flush=True)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if line:
        return request
    for child in children:
        os.kill(child, signal.SIGKILL)
    sys.exit()


def _bury(children):
    """Write down how processes ended."""
    for child in list(children):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            file = Path(children.pop(child))
            file.with_suffix(".new").write_text(str(os.waitstatus_to_exitcode(status)))
            file.with_suffix(".new").rename(file)


def _become(request):
    """Be what was asked for."""
    import runpy

    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # if nothing else is asked for: the tests read what was output 1
    for number, name in ((1, "stdout"), (2, "stderr")):
        if request[name] == "stdout":
            os.dup2(1, 2)
        elif request[name] is not None:
            os.dup2(os.open(request[name], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o666), number)
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    sys.stdout.reconfigure(encoding=encoding, errors=errors or "strict")
    sys.stderr.reconfigure(encoding=encoding, errors="backslashreplace")
    first, *rest = request["arguments"]
    if first == "-c":
        sys.argv, sys.path[:] = ["-c", *rest[1:]], ["", *sys.path]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    elif first == "-m":
        sys.argv, sys.path[:] = [rest[0], *rest[1:]], [os.getcwd(), *sys.path]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[:] = [first, *rest], [os.path.dirname(os.path.abspath(first)), *sys.path]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    _import_much()
    try:
        _become(_serve())
    except KeyboardInterrupt:  # end as Python does, which forgets it if an exit handler evaluates a string
        sys.excepthook(*sys.exc_info())
        atexit._run_exitfuncs()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
