"""Products of exported C have the bits of dlc, with vectors and without: codegen/micro/prelude_products.h.

One program is called with many sizes: rows and columns around each tile, sums around each chain.
"""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import Dim

import dlc
from tests.export.compilers import CLANG, STRICT, TCC

ROWS, COLUMNS, TERMS = (2, 3, 5, 13, 14, 31), (2, 15, 17, 32, 70), (2, 33, 256, 259, 520)
SSE2 = ["-msse2", "-mno-avx", "-DDLC_HAS_FMA=0"]
#: By name: who compiles, and how.
COMPILERS: dict[str, tuple[str | None, list[str]]] = {
    "vectors": ("gcc", [*STRICT, "-march=native"]),
    "sanitized": (
        "gcc",
        [*STRICT, "-O1", "-march=native", "-fsanitize=undefined", "-fno-sanitize-recover=all"],
    ),
    "plain": ("gcc", [*STRICT, "-march=native", "-DDLC_PLAIN"]),
    "clang": (CLANG, [*STRICT, "-march=native"]),
    "tcc": (TCC, ["-std=c11", "-Wall", "-Werror"]),
    # of 16 bytes, with fused multiply-adds as ARM has them, and without as SSE2
    "short vectors": ("gcc", [*STRICT, "-march=native", "-DDLC_VECTOR_BYTES=16"]),
    "SSE2": ("gcc", [*STRICT, *SSE2]),
    "SSE2, sanitized": (
        "gcc",
        [*STRICT, "-O1", *SSE2, "-fsanitize=undefined", "-fno-sanitize-recover=all"],
    ),
    "SSE2, plain": ("gcc", [*STRICT, *SSE2, "-DDLC_PLAIN"]),
}
#: Those without fused multiply-adds have other bits than dlc here: they are those of the plain loops.
PLAIN = "SSE2, plain"
SLOW = ("plain", "tcc", PLAIN)
#: B and A may be transposed.
LAYOUTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "rows": lambda a, b: a @ b,
    "columns of B": lambda a, b: a @ b.mT,
    "columns of A": lambda a, b: a.mT @ b,
    "both": lambda a, b: torch.relu(a.mT @ b.mT) + 1,
}


def library(m: Any, folder: Path, how: str) -> Any:
    cc, flags = COMPILERS[how]
    if not cc:
        pytest.skip(f"needs {how}, and finds none in PATH")
    m.export_c(folder)
    strict = ["-ffp-contract=off", "-fwrapv", "-fno-math-errno"] if how != "tcc" else []
    command = [cc, *flags, *strict, "-shared", "-fPIC", "-o", f"{how}.so", "m.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:2000]
    found = ctypes.CDLL(str(folder / f"{how}.so"))
    found.m_workspace.restype = ctypes.c_size_t
    return found


def run(lib: Any, m: Any, arrays: list[np.ndarray], like: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    sizes: dict[str, int] = {}
    for param, array in zip(m._function.params, arrays, strict=True):
        dims = param.type.partition("[")[2].removesuffix("]").split(", ")
        sizes |= {dim: n for dim, n in zip(dims, array.shape, strict=True) if dim.isidentifier()}
    values = [ctypes.c_int64(sizes[name]) for name in m._run.sizes]
    made = [np.empty_like(array) for array in like]
    work = np.empty(lib.m_workspace(*values), np.uint8)
    places = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, *made, work)]
    assert lib.m_run(*values, *places, None) == 0
    return made


def compare(libraries: dict[str, Any], m: Any, arrays: list[np.ndarray], what: Any) -> None:
    want = m._run(*arrays)
    made = {how: run(lib, m, arrays, want) for how, lib in libraries.items()}
    for how, results in made.items():
        like = made.get(PLAIN) if how.startswith("SSE2") else want
        if like is None:
            continue  # it takes long, and others of its class are compared in other turns
        for have, other in zip(results, like, strict=True):
            assert have.tobytes() == np.asarray(other).tobytes(), (how, what)
    for have, other in zip(made.get(PLAIN, ()), want, strict=False):
        np.testing.assert_allclose(have, np.asarray(other), rtol=1e-3, atol=1e-3)


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sizes(dtype: torch.dtype, layout: str, tmp_path: Path) -> None:
    fn, g = LAYOUTS[layout], torch.Generator().manual_seed(0)

    def given(rows: int, columns: int, terms: int) -> tuple[Tensor, Tensor]:
        a = torch.randn(rows, terms, generator=g, dtype=dtype)
        b = torch.randn(terms, columns, generator=g, dtype=dtype)
        turned = (layout in ("columns of A", "both"), layout in ("columns of B", "both"))
        return tuple(x.mT.contiguous() if t else x for x, t in zip((a, b), turned, strict=True))  # type: ignore[return-value]

    auto = {0: Dim.AUTO, 1: Dim.AUTO}
    dlc.save(fn, tmp_path / "m.dlc", given(4, 6, 8), dynamic_shapes=(auto, auto), check=False)
    m = dlc.load(tmp_path / "m.dlc", tier="tcc")
    assert "dlc_micro_" in dlc.ir.parse(m.text).export_c(tmp_path)[0].with_name("m.c").read_text()
    libraries = {how: library(m, tmp_path / how, how) for how, (cc, _) in COMPILERS.items() if cc}
    for k, (rows, columns, terms) in enumerate(itertools.product(ROWS, COLUMNS, TERMS)):
        arrays = [x.numpy() for x in given(rows, columns, terms)]
        some = {how: lib for how, lib in libraries.items() if how not in SLOW or k % 5 == 0}
        compare(some, m, arrays, (rows, columns, terms))


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("layout", ["rows", "columns of B"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_one_row(dtype: torch.dtype, layout: str, tmp_path: Path) -> None:
    """It is a program of its own, whose sizes are the columns and the terms."""
    g = torch.Generator().manual_seed(0)

    def given(columns: int, terms: int) -> tuple[Tensor, Tensor]:
        b = torch.randn(terms, columns, generator=g, dtype=dtype)
        turned = b.mT.contiguous() if layout == "columns of B" else b
        return torch.randn(1, terms, generator=g, dtype=dtype), turned

    shapes = ({1: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO})
    dlc.save(LAYOUTS[layout], tmp_path / "m.dlc", given(6, 8), dynamic_shapes=shapes, check=False)
    m = dlc.load(tmp_path / "m.dlc", tier="tcc")
    libraries = {how: library(m, tmp_path / how, how) for how, (cc, _) in COMPILERS.items() if cc}
    for columns, terms in itertools.product((*COLUMNS, 64, 100), TERMS):
        compare(libraries, m, [x.numpy() for x in given(columns, terms)], (columns, terms))


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("how", COMPILERS)
@pytest.mark.parametrize(
    ("channels", "groups", "kernel"),
    [((16, 40), 1, 3), ((5, 33), 1, 1), ((24, 24), 24, 3), ((6, 8), 2, 2)],
    ids=str,
)
def test_convolutions(channels: tuple[int, int], groups: int, kernel: int, how: str, tmp_path: Path) -> None:
    """Rows in runs, weights whose sum has another order in memory, columns with elements of their own."""

    def made(x: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(x, w, stride=2 if kernel > 1 else 1, padding=kernel // 2, groups=groups)

    g = torch.Generator().manual_seed(0)
    x = torch.randn(2, channels[0], 11, 13, generator=g)
    w = torch.randn(channels[1], channels[0] // groups, kernel, kernel, generator=g)
    dlc.save(made, tmp_path / "m.dlc", (x, w), check=False)
    m = dlc.load(tmp_path / "m.dlc", tier="tcc")
    libraries = {name: library(m, tmp_path / name, name) for name in dict.fromkeys((how, PLAIN))}
    compare(libraries, m, [x.numpy(), w.numpy()], how)
