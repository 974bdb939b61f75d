"""Exact rank vectors on an NVIDIA GPU, in one launch: ``ranks.cu``, compiled when first needed.

NVRTC, which PyTorch brings for kernels of its own, compiles it, and the driver loads it; ctypes calls both.
Where one of them is missing or refuses, PyTorch's operations find the ranks, as on any other device.
"""

from __future__ import annotations

import ctypes
import math
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

SOURCE = Path(__file__).with_name("ranks.cu")
SCRATCH = 2  # bytes for each value of each part, and two more values
MOST_ROWS = 2**16 - 1  # of a launch
_LARGEST = 2**17 - 1  # values of a row
_STATIC = 256  # bytes of shared memory that the kernel has of its own
_FULL_BIN = 1024  # values that a block may get beyond its share, for its last bin
_SHARE = 1024  # values that are worth a block of their own, if there are idle processors
_USEFUL_PARTS, _MOST_PARTS = 12, 16  # with more parts, all of them wait for the same bytes
_MOST_BINS = 2**14  # clearing and summing more takes longer than comparing
_LARGE_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_SHARED_MEMORY_OF_A_BLOCK = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN


class Plan(NamedTuple):
    """How a launch is divided, see ``ranks.cu``."""

    parts: int
    threads: int
    bins: int
    shared: int  # bytes of a block


@lru_cache
def make_plan(rows: int, n: int, processors: int, shared: int) -> Plan | None:
    """Divide rows of n values among blocks; None where their parts do not fit into shared memory."""
    if not 1 < n <= _LARGEST:
        return None
    threads = 256 if n <= 2048 else 512 if n <= 2**14 else 1024
    pairs = 2 * threads  # each thread sums pairs of bins
    least = min(processors // max(rows, 1), n // _SHARE, _USEFUL_PARTS)
    for parts in range(max(1, least), _MOST_PARTS + 1):
        values = min(math.ceil(n / parts) + _FULL_BIN, n)
        left = shared - _STATIC - 4 * values
        bins = pairs * min(math.ceil(n / (2 * pairs)), _MOST_BINS // pairs, left // (2 * pairs))
        if 20 * bins >= n and values < 2**16:
            return Plan(parts, threads, bins, 4 * values + 2 * bins)
    return None


class _Arguments(ctypes.Structure):
    """The parameters of ``rank_rows``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("rows", "out", "scratch", "attention")),
        *((name, ctypes.c_int) for name in ("n", "bins")),
        ("half_inverse_norm", ctypes.c_float),
    )


class _Call:
    """What a launch needs on the host, prepared once."""

    def __init__(self) -> None:
        self.arguments = _Arguments()
        start = ctypes.addressof(self.arguments)
        addresses = [start + getattr(_Arguments, name).offset for name, *_ in _Arguments._fields_]
        self.pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        self._pinned = torch.zeros(1, dtype=torch.int32, pin_memory=True)  # the kernel can write there
        self.address = self._pinned.data_ptr()
        self.attention = ctypes.c_int.from_address(self.address)


def status_of(scratch: torch.Tensor, rows: int, plan: Plan) -> torch.Tensor:
    """Return what the kernel found in the parts of each row."""
    return scratch[: 2 * rows * plan.parts].view(torch.float32).view(rows, plan.parts)


class Kernel:
    """The kernel, compiled for one device."""

    def __init__(self, device: torch.device) -> None:
        properties = torch.cuda.get_device_properties(device)
        self.processors = properties.multi_processor_count
        program = compile_source(f"sm_{properties.major}{properties.minor}")
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._current_stream = torch._C._cuda_getCurrentRawStream  # ten times as fast as `current_stream`
        self._calls: list[_Call] = []
        shared = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(shared), _SHARED_MEMORY_OF_A_BLOCK, device.index)
        self.shared = shared.value
        module, self._function, self._context = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        with torch.cuda.device(device):
            torch.cuda.synchronize()  # makes the device's context, and this thread's
            self._call("cuCtxGetCurrent", ctypes.byref(self._context))
            self._call("cuModuleLoadData", ctypes.byref(module), program)
            self._call("cuModuleGetFunction", ctypes.byref(self._function), module, b"rank_rows")
            self._call("cuFuncSetAttribute", self._function, _LARGE_SHARED_MEMORY, self.shared - _STATIC)

    def plan(self, rows: int, n: int) -> Plan | None:
        """Divide rows of n values among blocks."""
        return make_plan(rows, n, self.processors, self.shared)

    def rank(
        self, rows: torch.Tensor, out: torch.Tensor, plan: Plan, *, wait: bool = True
    ) -> torch.Tensor | None:
        """Write the rank vectors of contiguous float32 rows, as if without ties.

        :param wait: For the result. Otherwise rows that should be sorted are ranked by comparing all values.
        :return: None if all is well. Else of each row's parts Σ (t² − 1) over their values, t being how many
            values equal it. NaN says that the row contains NaN or infinity, infinity that it must be sorted.
        """
        number, n = rows.shape
        scratch = torch.empty(number * plan.parts * (n + 2), dtype=torch.int16, device=rows.device)
        try:
            call = self._calls.pop()  # no other thread has it then
        except IndexError:
            call = _Call()
        given = call.arguments
        given.rows, given.out, given.scratch = rows.data_ptr(), out.data_ptr(), scratch.data_ptr()
        given.n, given.bins, given.half_inverse_norm = n, plan.bins, 0.5 * math.sqrt(12 / (n**3 - n))
        given.attention = call.address if wait else None
        grid, block = (plan.parts, number, 1), (plan.threads, 1, 1)
        stream = ctypes.c_void_p(self._current_stream(rows.device.index))
        self._call("cuCtxPushCurrent_v2", self._context)  # a new thread has none
        try:
            self._call(
                "cuLaunchKernel", self._function, *grid, *block, plan.shared, stream, call.pointers, None
            )
            if wait:
                self._call("cuStreamSynchronize", stream)
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        attention, call.attention.value = call.attention.value, 0
        self._calls.append(call)
        return status_of(scratch, number, plan) if attention else None

    def _call(self, name: str, *arguments: object) -> None:
        error = getattr(self._driver, name)(*arguments)
        if error:
            raise RuntimeError(f"{name} failed with CUDA error {error}")


@cache
def kernel(device: torch.device) -> Kernel | None:
    """Return the kernel for a device; None where it cannot be had."""
    if device.type != "cuda" or torch.version.cuda is None:
        return None
    try:
        return Kernel(device)
    except (OSError, RuntimeError, AttributeError):
        return None


def compile_source(architecture: str) -> bytes:
    """Compile ``ranks.cu`` to machine code.

    :raises OSError: If there is no NVRTC.
    :raises RuntimeError: If NVRTC refuses.
    """
    nvrtc = _nvrtc()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE.read_bytes(), b"ranks.cu", 0, None, None):
        raise RuntimeError("NVRTC does not start")
    options = (ctypes.c_char_p * 1)(f"-arch={architecture}".encode())
    if nvrtc.nvrtcCompileProgram(program, 1, options):
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.value.decode())
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw


def _nvrtc() -> ctypes.CDLL:
    """Return the NVRTC that PyTorch is linked to: loading what is linked makes it known by its name alone."""
    name = f"libnvrtc.so.{str(torch.version.cuda).partition('.')[0]}"
    try:
        return ctypes.CDLL(name)
    except OSError:
        ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libcaffe2_nvrtc.so"))
        return ctypes.CDLL(name)
