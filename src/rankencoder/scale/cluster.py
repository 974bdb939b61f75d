"""Connect to a Ray cluster and run tasks and encoders on it."""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError, MissingExtraError, first_line
from rankencoder.io.files import Place, Slice, cut, fingerprint, is_address, list_files

_SMALL = 64 * 2**20  # bytes of a corpus that one machine cuts faster than the cluster does


class RayCluster:
    """A Ray cluster, to be used in a ``with`` block.

    :param address: An address such as "10.0.0.1:6379", "auto" for the cluster that this machine belongs to,
        or "local" to start one on this machine alone. If Ray runs in this process already, that is used.
    :param workers: Encoders to run at the same time; by default one per GPU or, without GPUs, one per CPU.
    """

    def __init__(self, address: str = "local", *, workers: int | None = None) -> None:
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise MissingExtraError("a cluster needs Ray", "ray") from error
        self.ray = ray
        self.address = address
        self._workers = workers
        self._started = False

    def __enter__(self) -> RayCluster:
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors come as exceptions too
        if not self.ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # the rest comes as exceptions
            try:
                _check_reachable(self.address)
                self.ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
            except (OSError, RuntimeError, ValueError) as error:
                raise InputError(
                    f"no Ray cluster at {self.address!r} ({first_line(error)}): start one with "
                    "`ray start --head`, or use this machine alone: local"
                ) from error
            self._started = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._started:
            self.ray.shutdown()
            self._started = False

    def slices(self, corpus: Place) -> list[Slice]:
        """Return the slices of a corpus in order; a large one is cut by the cluster."""
        # other machines have other working folders
        files = list_files(corpus if is_address(corpus) else Path(corpus).absolute())
        small = sum(fingerprint(file)[1] or _SMALL for file in files) < _SMALL
        return [part for parts in (map if small else self.map)(cut, files) for part in parts]

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of a function in the order of its items; tasks of lost machines are repeated."""
        task = self.ray.remote(max_retries=-1)(lambda item: function(item))
        limit = 4 * int(self.ray.cluster_resources().get("CPU", 1))  # results wait in memory
        running: deque[Any] = deque()
        with _ray_errors():
            for item in items:
                running.append(task.remote(item))
                if len(running) == limit:
                    yield self.ray.get(running.popleft())
            while running:
                yield self.ray.get(running.popleft())

    def run(
        self, worker: Callable[..., Any], arguments: tuple[Any, ...], number: int, device: str | None
    ) -> Iterator[dict[str, Any]]:
        """Yield what workers return for all numbers below ``number``, in any order; replace lost workers.

        :param worker: A class; each worker process makes one instance and calls it with ``{"item": number}``.
        :param device: "cpu" leaves GPUs alone.
        """
        resources = self.ray.cluster_resources()
        gpus = 0 if (device or "").startswith("cpu") else int(resources.get("GPU", 0))
        cpus = int(resources.get("CPU", 1))
        dataset = self.ray.data.from_items(list(range(number)), override_num_blocks=max(1, number)).map(
            worker,
            fn_constructor_args=arguments,
            concurrency=max(1, min(self._workers or gpus or cpus, cpus, number)),
            num_cpus=1,
            num_gpus=1 if gpus else 0,
        )
        dataset.context.enable_progress_bars = False
        with _ray_errors():
            yield from dataset.iter_rows()


def _check_reachable(address: str) -> None:
    """Check that a server listens at an address: Ray itself would wait for minutes and then exit."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


@contextmanager
def _ray_errors() -> Iterator[None]:
    """Turn errors of Ray, or of code on its machines, into one line."""
    from ray.exceptions import RayError, RayTaskError

    try:
        yield
    except RayError as error:
        cause: Exception = error
        while isinstance(cause, RayTaskError) and isinstance(cause.cause, Exception):
            cause = cause.cause
        if isinstance(cause, (InputError, OSError)):
            raise InputError(str(cause)) from error
        last = (str(cause).strip() or type(cause).__name__).splitlines()[-1]
        raise InputError(
            f"the work on Ray failed: {last} (is the same rankencoder on every machine of the cluster?)"
        ) from error
