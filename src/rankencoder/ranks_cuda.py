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
NOT_FINITE, UNEVEN = -1.0, -2.0  # what `Kernel.launch` returns of rows it did not rank
SCRATCH = 2  # bytes for each value of each part
MOST_ROWS = 2**16 - 1  # of a launch
_LARGEST = 2**17 - 1  # values of a row
_STATIC = 256  # bytes of shared memory that the kernel has of its own
_SLACK = 1024  # a block may get so many values more than its share, for its last bin
_SHARE = 2**13  # values that are worth a block of their own, if there are idle processors
_LARGE_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_SHARED_MEMORY_OF_A_BLOCK = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN


class Plan(NamedTuple):
    """How a launch is divided, see ``ranks.cu``."""

    parts: int
    threads: int
    bins: int
    room: int

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return 4 * self.room + 2 * self.bins


@lru_cache
def make_plan(rows: int, n: int, processors: int, shared: int) -> Plan | None:
    """Divide rows of n values among blocks; None where their parts do not fit into shared memory."""
    if not 1 < n <= _LARGEST:
        return None
    threads = 256 if n <= 2048 else 512 if n <= 2**14 else 1024
    most_bins = math.ceil(n / (2 * threads)) * 2 * threads
    fewest_bins = math.ceil(n / (20 * threads)) * 2 * threads
    for parts in range(max(1, min(processors // rows, n // _SHARE)), 17):
        room = min(math.ceil(n / parts) + _SLACK, n)
        bins = min(most_bins, 2**15, (shared - _STATIC - 4 * room) // (4 * threads) * 2 * threads)
        if bins >= fewest_bins and room < 2**16:
            return Plan(parts, threads, bins, room)
    return None


class Kernel:
    """The kernel, compiled for one device."""

    def __init__(self, device: torch.device) -> None:
        properties = torch.cuda.get_device_properties(device)
        self.processors = properties.multi_processor_count
        program = compile_source(f"sm_{properties.major}{properties.minor}")
        self._driver = ctypes.CDLL("libcuda.so.1")
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

    def launch(
        self, rows: torch.Tensor, out: torch.Tensor, plan: Plan, status: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Write the rank vectors of contiguous float32 rows, as if without ties.

        :param status: Where to write the result, on the device or in pinned memory.
        :return: Of each row's parts Σ (t² − 1) over their values, t being how many values equal it; or
            NOT_FINITE or UNEVEN, of rows that are not ranked.
        """
        number, n = rows.shape
        places = torch.empty((number, plan.parts, n), dtype=torch.int16, device=rows.device)
        if status is None:
            status = torch.empty((number, plan.parts), device=rows.device)
        tensors = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (rows, out, places, status)]
        numbers = [ctypes.c_int(n), ctypes.c_int(plan.bins), ctypes.c_int(plan.room)]
        scale = ctypes.c_float(0.5 * math.sqrt(12 / (n**3 - n)))
        arguments = [ctypes.addressof(value) for value in (*tensors, *numbers, scale)]
        self._call("cuCtxPushCurrent_v2", self._context)  # a new thread has none
        try:
            self._call(
                "cuLaunchKernel",
                self._function,
                *(plan.parts, number, 1),
                *(plan.threads, 1, 1),
                plan.shared,
                ctypes.c_void_p(torch.cuda.current_stream(rows.device).cuda_stream),
                (ctypes.c_void_p * len(arguments))(*arguments),
                None,
            )
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        return status

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
