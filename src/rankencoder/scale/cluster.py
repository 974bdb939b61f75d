"""A Ray cluster, and streams of work on it through Ray Data."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from rankencoder.errors import InputError, MissingExtraError, first_line

_READING = 0.25  # share of a CPU; reading mostly waits
_ENCODING = 0.75  # share of a CPU, so that each has an encoder and a reader


class RayCluster:
    """A Ray cluster, for a ``with`` block.

    :param address: Its address, such as "10.0.0.1:6379"; "auto" for the cluster of this machine; "local" to
        start one on this machine alone, for this block. Ray in this process, if started, is used instead.
    :param workers: How many encoders to run at once: by default one per GPU, or one per CPU without GPUs.
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
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors are raised too
        if not self.ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # others are raised
            try:
                host, _, port = self.address.removeprefix("ray://").rpartition(":")
                if port.isdigit():  # Ray itself would wait for minutes and then exit
                    socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
                self.ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
            except (OSError, RuntimeError, ValueError) as error:
                raise InputError(
                    f"no Ray cluster at {self.address!r} ({first_line(error)}): start one with "
                    "`ray start --head`, or use this machine alone with local"
                ) from error
            self._started = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._started:
            self.ray.shutdown()
            self._started = False

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return int(self.ray.cluster_resources().get("GPU", 0))

    @property
    def workers(self) -> int:
        """How many encoders run at once, leaving a share of the CPUs for reading."""
        cpus = float(self.ray.cluster_resources().get("CPU", 1))
        wanted = self._workers or self.gpus or int(cpus)
        return max(1, min(wanted, int((cpus - _READING) / _ENCODING)))

    def map(self, items: list[Any], function: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield a function's result for each item, unordered."""
        done = self._dataset(items).flat_map(
            lambda row: _read(lambda item: [function(item)], row), num_cpus=_READING
        )
        return self._stream(done, ordered=False)

    def encode(
        self,
        items: list[Any],
        read: Callable[[Any], Iterable[Any]],
        worker: Callable[..., Callable[[Any], Any]],
        *arguments: Any,
        device: str | None = None,
        ordered: bool = False,
    ) -> Iterator[Any]:
        """Yield the workers' results for the pieces of items, in bounded memory; replace lost workers.

        :param items: The items to read, such as slices of files; each is a separate task.
        :param read: Yields the pieces of an item.
        :param worker: Called once per worker process with the arguments; returns the function for pieces.
        :param device: "cpu" not to use GPUs.
        :param ordered: Yield in the order of the items, for which workers may have to wait.
        """
        gpu = 1 if self.gpus and not (device or "").startswith("cpu") else 0
        pieces = self._dataset(items).flat_map(lambda row: _read(read, row), num_cpus=_READING)
        done = pieces.map(
            _Worker,
            fn_constructor_args=(worker, *arguments),
            concurrency=max(1, min(self.workers, len(items))),
            num_cpus=_ENCODING,
            num_gpus=gpu,
        )
        return self._stream(done, ordered=ordered)

    def _dataset(self, items: list[Any]) -> Any:
        from ray.data import from_items

        return from_items([{"item": _Box(item)} for item in items], override_num_blocks=max(1, len(items)))

    def _stream(self, dataset: Any, *, ordered: bool) -> Iterator[Any]:
        context = dataset.context
        context.enable_progress_bars = False
        context.execution_options.preserve_order = ordered
        with _ray_errors():
            for row in self._rows(dataset):
                value = row["item"].value
                if isinstance(value, _Fault):
                    raise value.error
                yield value

    def _rows(self, dataset: Any) -> Iterator[dict[str, Any]]:
        """Yield a dataset's rows. Threads of its own `iter_rows` may outlive Ray and start it again."""
        from ray.data.block import BlockAccessor

        for bundle in dataset.iter_internal_ref_bundles():
            for block in self.ray.get(bundle.block_refs):
                yield from BlockAccessor.for_block(block).iter_rows(public_row_format=True)


class _Box:
    """A value of any type, opaque to Ray."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Fault:
    """An input error as a value, since Ray wraps exceptions."""

    def __init__(self, error: Exception) -> None:
        self.error = (OSError if isinstance(error, OSError) else InputError)(str(error))


def _read(read: Callable[[Any], Iterable[Any]], row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each piece, and one for an input error."""
    try:
        for piece in read(row["item"].value):
            yield {"item": _Box(piece)}
    except (InputError, OSError) as error:
        yield {"item": _Box(_Fault(error))}


class _Worker:
    """Processes pieces with a function that it creates for the first one."""

    def __init__(self, make: Callable[..., Callable[[Any], Any]], *arguments: Any) -> None:
        self.make, self.arguments = make, arguments

    @cached_property
    def work(self) -> Callable[[Any], Any]:
        return self.make(*self.arguments)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        if isinstance(row["item"].value, _Fault):
            return row
        return next(_read(lambda piece: [self.work(piece)], row))


@contextmanager
def _ray_errors() -> Iterator[None]:
    """Raise errors of Ray, and of code on its machines, as one line."""
    from ray.exceptions import RayError, RayTaskError

    try:
        yield
    except RayError as error:
        cause = error
        while isinstance(cause, RayTaskError) and isinstance(cause.cause, Exception):
            cause = cause.cause
        last = (str(cause).strip() or type(cause).__name__).splitlines()[-1]
        what = f"the work on Ray failed: {last}"
        raise InputError(f"{what} (do all machines have the same version of rankencoder?)") from error
