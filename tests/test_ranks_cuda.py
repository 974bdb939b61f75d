"""The GPU's kernel against scipy: on a GPU as it is, elsewhere compiled for the CPU (cuda_on_cpu.h)."""

import ctypes
import math
import shutil
import subprocess
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from scipy.stats import rankdata

from rankencoder import rank_vectors, ranks, ranks_cuda
from rankencoder.errors import InputError

HERE = Path(__file__).parent


class KernelOnCPU(ranks_cuda.Kernel):
    """`ranks_cuda.Kernel` with a driver that needs no GPU."""

    def __init__(self, path):
        self.processors, self.shared = 132, 232_448  # an H200's
        self._driver = ctypes.CDLL(str(path))
        self._function = self._context = None
        self._current_stream = lambda device: 0
        with patch("torch.zeros", lambda *shape, pin_memory, **options: torch.ones(*shape, **options) - 1):
            self._calls = [ranks_cuda._Call()]

    def rank(self, rows, out, plan, *, wait=True):
        return super().rank(rows, out.fill_(math.nan), plan, wait=wait)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    if not shutil.which("g++"):
        pytest.skip("needs a GPU, or g++ to run the kernel without one")
    path = tmp_path_factory.mktemp("kernel") / "ranks.so"
    flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-w"]
    subprocess.run(["g++", *flags, "-o", path, HERE / "cuda_on_cpu.cpp"], check=True)
    return path


@pytest.fixture
def device(request, monkeypatch):
    if torch.cuda.is_available():
        assert ranks_cuda.kernel(torch.device("cuda", 0)), "the kernel does not compile or load"
        return "cuda:0"
    kernel = KernelOnCPU(request.getfixturevalue("library"))
    monkeypatch.setattr(ranks_cuda, "kernel", lambda device: kernel)
    return "cpu"


def values(kind, shape):
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(shape).astype(np.float32)
    kinds = {
        "cosines": lambda: np.tanh(0.1 * normal + 0.05),
        "with ties": lambda: np.round(normal, 2),
        "two values": lambda: np.sign(normal),
        "constant": lambda: np.full_like(normal, 0.25),
        "ascending": lambda: np.sort(normal, axis=1),
        "skewed": lambda: np.exp(3 * normal),
        "far out": lambda: np.where(rng.random(shape) < 0.01, 3e38, normal),
        "a sample without deviation": lambda: np.where(np.arange(shape[1]) % 2, normal, 0.5),
        "zeros of both signs": lambda: np.where(rng.random(shape) < 0.1, -0.0, normal * (normal > 0)),
        "denormal": lambda: normal * np.float32(1e-41),
        "float16": lambda: normal.astype(np.float16).astype(np.float32),
    }
    return kinds[kind]().astype(np.float32)


KINDS = (
    *("cosines", "with ties", "two values", "constant", "ascending", "skewed", "far out"),
    *("a sample without deviation", "zeros of both signs", "denormal", "float16"),
)


def expected(rows):
    centred = rankdata(rows, axis=1).astype(np.float64) - (rows.shape[1] + 1) / 2
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 3, 33, 1000, 2049, 16_385, 50_001])
def test_the_kernel_ranks_as_scipy_does(device, n, kind):
    rows = values(kind, (3, n))
    z = rank_vectors(torch.from_numpy(rows).to(device)).cpu().numpy()
    assert z.dtype == np.float32
    assert np.abs(z - expected(rows)).max() < 1e-7


@pytest.mark.parametrize("n", [100_000, 2**17 - 1])
def test_long_rows(device, n):
    rows = values("cosines", (1, n))
    assert np.abs(rank_vectors(torch.from_numpy(rows).to(device)).cpu().numpy() - expected(rows)).max() < 1e-7


@pytest.mark.parametrize("plan", [(1, 64, 128, 16_256), (3, 128, 512, 9824), (8, 256, 4096, 12_192)])
def test_every_division_gives_the_same(device, plan):
    rows = torch.from_numpy(values("with ties", (4, 4000))).to(device)
    kernel = ranks_cuda.kernel(rows.device)
    out = torch.empty_like(rows)
    ties = kernel.rank(rows, out, ranks_cuda.Plan(*plan))
    assert ties.isfinite().all(), "a row was refused"
    lost = ties.sum(dim=1).cpu().numpy() / (4000**3 - 4000)
    assert np.abs(out.cpu().numpy() / np.sqrt(1 - lost)[:, None] - expected(rows.cpu().numpy())).max() < 1e-7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_other_types_and_views(device, dtype):
    rows = (100 * torch.from_numpy(values("cosines", (6, 60)))).to(device, dtype)
    for view in (rows, rows[:, ::2], rows.T, rows[::2], rows[0]):
        z = rank_vectors(view)
        assert z.dtype == (torch.float32 if dtype.itemsize == 2 else torch.float64)
        wanted = expected(np.atleast_2d(view.double().cpu().numpy()))
        assert np.abs(np.atleast_2d(z.cpu().numpy()) - wanted).max() < 1e-7


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused(device, bad):
    rows = torch.from_numpy(values("cosines", (5, 3000))).to(device)
    rows[3, 2999] = bad
    with pytest.raises(InputError, match="row 3 of the similarities contains NaN"):
        rank_vectors(rows)


def test_rows_by_parts_of_the_budget(device, monkeypatch):
    rows = torch.from_numpy(values("with ties", (7, 5000))).to(device)
    whole = rank_vectors(rows)
    monkeypatch.setattr(ranks, "MEMORY_BUDGET", 3 * 5000 * ranks_cuda.SCRATCH)
    assert torch.equal(rank_vectors(rows), whole)
    assert rank_vectors(rows[:0]).shape == (0, 5000)
    rows[5, 5] = math.nan
    with pytest.raises(InputError, match="row 5 "):
        rank_vectors(rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 1000, 5000])
def test_training_needs_no_second_look(device, n, kind):
    rows = values(kind, (3, n))
    z = ranks.training_rank_vectors(torch.from_numpy(rows).to(device)).cpu().numpy()
    assert np.abs(z - expected(rows)).max() < 2e-7


def test_almost_constant_rows(device):
    rows = np.full((4, 400), 0.5, dtype=np.float32)
    rows[1:, 7] = 1
    rows[2:, 100:150] = np.arange(50)
    rows[3, 150:] = np.arange(250)
    z = rank_vectors(torch.from_numpy(rows).to(device)).cpu().numpy()
    assert np.abs(z - expected(rows)).max() < 1e-7


def test_the_order_of_threads_does_not_matter(library):
    rows = torch.from_numpy(values("with ties", (2, 20_000)))
    kernel = KernelOnCPU(library)
    plan = kernel.plan(2, 20_000)
    found = []
    for backwards in (0, 1):
        ctypes.c_int.in_dll(kernel._driver, "backwards").value = backwards
        out = torch.empty_like(rows)
        found.append((kernel.rank(rows, out, plan), out))
    ctypes.c_int.in_dll(kernel._driver, "backwards").value = 0
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


@pytest.mark.parametrize("shared", [49_152, 101_376, 166_912, 232_448])
@pytest.mark.parametrize("rows", [1, 64, 5000])
def test_plans_fit(shared, rows):
    for n in (2, 1000, 2048, 2049, 30_000, 100_000, 2**17 - 1):
        plan = ranks_cuda.make_plan(rows, n, 132, shared)
        if plan is None:
            assert n > 2**16
            assert shared < 100_000
        else:
            assert plan.shared + 256 <= shared
            assert plan.bins % (2 * plan.threads) == 0
            values = min(n, -(-n // plan.parts) + plan.threads)
            assert values < 2**16
            assert 4 * values + 2 * plan.bins <= plan.shared
    assert ranks_cuda.make_plan(rows, 1, 132, shared) is None
    assert ranks_cuda.make_plan(rows, 2**17, 132, shared) is None
