"""Servers for the tests: real ones, on free ports of the loopback interface."""

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import warm

SOURCE = Path(__file__).parents[1] / "src"
WEB = httpx.Client(timeout=300)
"""For many requests: `httpx.get` makes a client each time, which reads all certificates."""


@contextmanager
def serving(model, index=None, **settings):
    """Serve a model in a thread; yield the address."""
    from rankencoder.server.server_app import create_app

    with running(create_app(model, index=index, **settings)) as url:
        yield url


@contextmanager
def running(app):
    """Run an application in a thread; yield its address."""
    from rankencoder.web_process import WebServer, address, bind

    listener = bind("127.0.0.1", 0)
    server = WebServer(app, grace=30)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        wait_for(lambda: server.started or not thread.is_alive())
        yield address(listener)
    finally:
        server.should_exit = True
        thread.join()


class Process:
    """A server as a process of its own, started by a command."""

    def __init__(self, *command, log, **environment):
        self.log = log
        known = {name: value for name, value in os.environ.items() if name != "RANKENCODER_API_KEY"}
        path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
        with log.open("wb") as out:
            self.process = warm.Popen(
                [sys.executable, *map(str, command)],
                stdout=out,
                stderr=warm.STDOUT,
                env={**known, "PYTHONPATH": path, **environment},
            )
        wait_for(lambda: "ready at" in self.text() or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()
        self.url = self.text().partition("ready at ")[2].split()[0]

    def text(self):
        return self.log.read_text(encoding="utf-8")

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        return self.process.wait(300)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def figure(url, name):
    """Return a figure of /metrics."""
    lines = WEB.get(f"{url}/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))
