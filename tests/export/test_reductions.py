"""Reductions in C: their elements are computed for all lanes first. The bits are those of dlc."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dlc import ir
from dlc._C import Loaded
from tests.export.compilers import CLANG, NATIVE, STRICT, TCC

#: Around the lanes, blocks and pairs of blocks of docs/bits.md, and groups of columns.
SIZES = (
    0,
    1,
    2,
    15,
    16,
    17,
    31,
    32,
    33,
    47,
    100,
    257,
    1023,
    1024,
    1025,
    1039,
    1040,
    1041,
    2047,
    2048,
    2049,
    3073,
)
#: By dtype, the operators and what is reduced of an element.
KINDS = {
    "f32": (("sum", "exp"), ("amax", "neg"), ("amin", "exp"), ("prod", "cos")),
    "f64": (("sum", "exp"), ("amax", "neg"), ("amin", "abs"), ("prod", "cos")),
    "i32": (("sum", "neg"), ("amax", "abs"), ("amin", "neg"), ("prod", "neg")),
    "i64": (("sum", "neg"), ("amax", "abs")),
    "bf16": (("amax", "neg"), ("amin", "exp")),
    "bool": (("any", "not"), ("all", "not")),
}


def program(dtype: str) -> ir.Function:
    """By row, by column and as a whole, each reduction; and one that also stores what it reduces."""
    lines, results, types = [], [], []
    for k, (red, op) in enumerate(KINDS[dtype]):
        lines.append(f"let e{k}: {dtype}[B, N] = {op} x")
        for name, shape, axes in ((f"r{k}", "[B]", "[1]"), (f"c{k}", "[N]", "[0]"), (f"w{k}", "", "[0, 1]")):
            lines.append(f"let {name}: {dtype}{shape} = {red} e{k} axes={axes}")
            results.append(name)
            types.append(f"{dtype}{shape}")
    results.append("e0")
    types.append(f"{dtype}[B, N]")
    body = "\n  ".join(lines)
    text = (
        f"fn m[B, N](x: {dtype}[B, N]) -> ({', '.join(types)}) {{\n  {body}\n  ret {', '.join(results)}\n}}\n"
    )
    return ir.parse("dlc 1 graph\n" + text)


def elements(dtype: str, rows: int, n: int, special: bool) -> np.ndarray:
    draw = np.random.default_rng(rows * n + special)
    if dtype == "bool":
        return draw.random((rows, n)) < (0.5 if special else 0.999)
    if dtype[0] == "i":
        return draw.integers(-1000, 1000, (rows, n)).astype(np.int32 if dtype == "i32" else np.int64)
    x = draw.standard_normal((rows, n)).astype(np.float64 if dtype == "f64" else np.float32)
    if special and n:
        x[:, draw.integers(0, n)] = np.nan
        x[0, draw.integers(0, n)] = -np.inf
    return (x.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bf16" else x


def library(folder: Path, cc: str, flags: list[str]) -> ctypes.CDLL:
    out = folder / f"{Path(cc).name}.so"
    command = [cc, *flags, "-ffp-contract=off", "-fwrapv", "-shared", "-fPIC", "-o", str(out), "m.c"]
    if Path(cc).name == "tcc":
        command = [cc, *flags, "-shared", "-o", str(out), "m.c"]
    subprocess.run(command, cwd=folder, check=True)
    found = ctypes.CDLL(str(out))
    found.m_workspace.restype = ctypes.c_size_t
    return found


@pytest.mark.parametrize("cc", [cc for cc in ("gcc", CLANG, TCC) if cc])
@pytest.mark.parametrize("dtype", KINDS)
def test_reductions_have_the_bits_of_dlc(dtype: str, cc: str, tmp_path: Path) -> None:
    function = program(dtype)
    function.export_c(tmp_path)
    run = Loaded(function.text, {}, tier="tcc")
    flags = (
        ["-std=c11", "-Wall", "-Werror"]
        if cc == TCC
        else [*(NATIVE if cc == CLANG else STRICT), "-march=native"]
    )
    m = library(tmp_path, cc, flags)
    kinds = [kind.partition("[")[0] for kind in function.results]
    for n in SIZES[dtype != "bool" :]:  # an extreme of nothing has no value
        for rows, special in (
            (1, False),
            (3, True),
            *(((64, False), (65, True), (193, False)) if n < 300 else ()),
        ):
            x = elements(dtype, rows, n, special)
            want = run(x)
            made = [np.empty_like(one, order="C") for one in want]
            work = np.empty(m.m_workspace(ctypes.c_int64(rows), ctypes.c_int64(n)), np.uint8)
            places = [ctypes.c_void_p(array.ctypes.data) for array in (x, *made, work)]
            assert m.m_run(ctypes.c_int64(rows), ctypes.c_int64(n), *places, None) == 0
            for have, one, kind in zip(made, want, kinds, strict=True):
                assert np.array_equal(bits(have, kind), bits(one, kind)), (kind, rows, n)


def bits(array: np.ndarray, kind: str) -> np.ndarray:
    """All NaN are one number."""
    if kind == "bf16":
        return np.where(array & 0x7FFF > 0x7F80, 0x7FC0, array)
    array = np.where(np.isnan(array), np.nan, array) if array.dtype.kind == "f" else array
    return np.ascontiguousarray(array).view(np.uint8)
