"""Strips that take a step of the loop around with them: down rows, along narrow rows, scans of several
rows, indices compared with a value."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from benchmarks.ulp.strips import TYPES, Strips

Array = np.ndarray
FORMS = {
    "load": lambda x, y: x,
    "square": lambda x, y: x * x,
    "mul": lambda x, y: x * y,
    "square_sub": lambda x, y: (x - y) * (x - y),
}
WIDTHS = (1, 15, 16, 37, 256)


def sample(dtype: str, n: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=n) * rng.choice([1e-3, 1, 30, 1e6], n)).astype(TYPES[dtype])


def stored(dtype: str, shape: tuple[int, ...], seed: int) -> tuple[Array, Array]:
    """Numbers as they lie in memory, and as they are computed with."""
    x = sample("f64" if dtype == "f64" else "f32", int(np.prod(shape)), seed).reshape(shape)
    if dtype == "f16":
        halves = (x % 100).astype(np.float16)
        return halves.view(np.uint16), halves.astype(np.float32)
    if dtype != "bf16":
        return x, x
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32)


def step(red: str, total: Array, value: Array) -> Array:
    if red == "sum":
        return total + value
    beaten = total <= value if red == "amax" else total >= value
    return np.where((value != value) | beaten, value, total)


DOWN = [
    ("sum", "load", "f32"),
    ("sum", "square", "f32"),
    ("sum", "mul", "f32"),
    ("sum", "square_sub", "f32"),
    ("amax", "load", "f32"),
    ("amin", "load", "f32"),
    ("sum", "load", "f64"),
    ("sum", "square_sub", "f64"),
    ("sum", "load", "bf16"),
    ("sum", "square_sub", "bf16"),
]


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize(("red", "form", "dtype"), DOWN)
def test_down_rows(isa: Strips, red: str, form: str, dtype: str, scalar: bool) -> None:
    """Row after row, whatever the width, the number of rows and how far they lie apart."""
    for rows in (0, 1, 3, 4, 7, 8, 21, 64):
        for n in WIDTHS:
            raw, x = stored(dtype, (rows + 1, n + 3), 1)
            _, y = stored("f64" if dtype == "f64" else "f32", (rows + 1, n + 2), 2)
            for y_step in (0, y.shape[1]):
                sums = np.full(n, 3, y.dtype)
                want = sums.copy()
                for r in range(rows):
                    with np.errstate(all="ignore"):
                        other = y[r if y_step else 0, : 1 if scalar else n]
                        want = step(red, want, FORMS[form](x[r, :n], other))
                isa.call(
                    f"strip_down_{red}_{form}_{dtype}",
                    sums, raw, raw.shape[1], y, y_step, rows, n, ctypes.c_uint(2 * scalar),
                )  # fmt: skip
                assert sums.tobytes() == want.astype(y.dtype).tobytes(), (rows, n, y_step)


def test_extremes_down_rows_keep_nan_and_zeros(isa: Strips) -> None:
    x = np.array([[0.0, 1, np.nan, -0.0], [-0.0, np.nan, 2, 0.0]], np.float32)
    for red in ("amax", "amin"):
        best = x[0].copy()
        isa.call(f"strip_down_{red}_load_f32", best, x[1:].copy(), 4, x, 0, 1, 4, ctypes.c_uint(0))
        want = step(red, x[0], x[1])
        want[2] = np.nan
        np.testing.assert_array_equal(best, want)
        assert np.signbit(best[0]) and not np.signbit(best[3])


ALONG = [
    ("load", "f16"),
    ("load", "bf16"),
    *((form, dtype) for form in ("square", "square_sub") for dtype in ("f16", "bf16", "f64")),
]


@pytest.mark.parametrize(("form", "dtype"), ALONG)
def test_along_rows(isa: Strips, form: str, dtype: str) -> None:
    """The lanes of strip_reduce_sum, of what is made of each element."""
    wide = "f64" if dtype == "f64" else "f32"
    raw, x = stored(dtype, (1024,), 3)
    y = np.array([0.75], x.dtype)
    made = FORMS[form](x, y).astype(x.dtype)
    kind = ctypes.c_double if wide == "f64" else ctypes.c_float
    for n in (0, 1, 7, 16, 33, 255, 1024):
        total = isa.call(f"strip_along_sum_{form}_{dtype}", raw, y, n, ctypes.c_uint(2), result=kind)
        want = isa.call(f"strip_reduce_sum_{wide}", made, n, result=kind)
        assert x.dtype.type(total) == x.dtype.type(want), n


SCANS = {
    "add_f32": (np.float32, np.float64, np.add, 0),
    "mul_f32": (np.float32, np.float64, np.multiply, 1),
    "maximum_f32": (np.float32, np.float32, np.maximum, -np.inf),
    "minimum_f32": (np.float32, np.float32, np.minimum, np.inf),
    "add_f64": (np.float64, np.float64, np.add, 0),
    "mul_f64": (np.float64, np.float64, np.multiply, 1),
    "add_i64": (np.int64, np.int64, np.add, 0),
}


@pytest.mark.parametrize("name", SCANS)
def test_scans_of_rows(isa: Strips, name: str) -> None:
    """Forwards and backwards, eight rows at once and fewer, in place too."""
    kind, wide, combine, start = SCANS[name]
    first = np.array([start], wide)
    for rows in (1, 3, 8):
        for n in (1, 5, 130):
            x = sample("f64", rows * (n + 1), 4).reshape(rows, n + 1)
            x = (x / 1000 if kind != np.int64 else x % 50).astype(kind)
            with np.errstate(all="ignore"):
                want = combine.accumulate(x[:, :n].astype(wide), axis=1).astype(kind)
            out = np.zeros_like(x)
            isa.call(f"strip_scan_{name}", out, 1, n + 1, x, 1, n + 1, first, n, rows, 0)
            assert out[:, :n].tobytes() == want.tobytes() and not out[:, n].any()
            back = x[:, :n][:, ::-1].copy()
            end = ctypes.c_void_p(back.ctypes.data + (n - 1) * back.itemsize)
            isa.call(f"strip_scan_{name}", end, -1, n, end, -1, n, first, n, rows, 0)
            assert back[:, ::-1].tobytes() == want.tobytes()


@pytest.mark.parametrize("past", [0, 1])
@pytest.mark.parametrize("name", ["add_f32", "mul_f32"])
def test_scans_of_whole_lines(isa: Strips, name: str, past: int) -> None:
    """Rows that begin where lines do, and in place, with and without stores past the caches."""
    _, _, combine, start = SCANS[name]
    for n in (16, 64, 112):
        x = (sample("f64", 8 * n, 5).reshape(8, n) / 1000).astype(np.float32)
        with np.errstate(all="ignore"):
            want = combine.accumulate(x.astype(np.float64), axis=1).astype(np.float32)
        room = np.zeros(8 * n + 16, np.float32)
        for at in (-room.ctypes.data % 64 // 4, 1):  # a line's first element, and another one
            out = room[at : at + 8 * n].reshape(8, n)
            isa.call(f"strip_scan_{name}", out, 1, n, x, 1, n, np.array([start], np.float64), n, 8, past)
            assert out.tobytes() == want.tobytes()
            out[:] = x
            isa.call(f"strip_scan_{name}", out, 1, n, out, 1, n, np.array([start], np.float64), n, 8, past)
            assert out.tobytes() == want.tobytes()


def test_scan_of_bf16(isa: Strips) -> None:
    raw, x = stored("bf16", (8, 40), 5)
    x = x.copy()
    out = np.zeros_like(raw)
    isa.call("strip_scan_add_bf16", out, 1, 40, raw, 1, 40, np.zeros(1, np.float32), 40, 8, 0)
    want = np.cumsum(x, axis=1, dtype=np.float32)
    got = (out.astype(np.uint32) << 16).view(np.float32)
    assert np.all(np.abs(got - want) <= np.abs(want) / 256)


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge"])
def test_indices_compared(isa: Strips, name: str) -> None:
    compare = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[name]
    for n in (0, 1, 20):
        for start in (0, 5):
            for value in (-(2**63), -1, 0, 4, 5, 6, 24, 25, 26, 2**63 - 1):
                out = np.full(n + 1, 7, np.uint8)
                isa.call(f"strip_index_{name}", out, np.array([value], TYPES["i64"]), start, n)
                want = compare(np.arange(start, start + n, dtype=np.int64), np.int64(value))
                assert out[:n].tolist() == want.astype(np.uint8).tolist() and out[n] == 7


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_arithmetic_of_bf16(isa: Strips, op: str) -> None:
    """What loads, the strip of float32 and rounding leave, however the operands lie."""
    n = 67
    lies = [stored("bf16", (n,), seed) for seed in (6, 7)]
    for a, b in ((1, 0), (0, 1), (1, 1), (2, 1), (1, 2)):  # 0: floats, 1: bf16, 2: one float
        given = [(x, raw, x[:1].copy())[kind] for kind, (raw, x) in zip((a, b), lies, strict=True)]
        plain = [np.repeat(x[:1], n) if kind == 2 else x for kind, (_, x) in zip((a, b), lies, strict=True)]
        want = isa.map(op, "f32", *(p.copy() for p in plain))
        isa.call("strip_round_bf16", want, n)
        kinds = (a == 1) | (b == 1) << 1 | (a == 2) << 2 | (b == 2) << 3
        out = np.zeros(n, np.float32)
        isa.call(f"strip_half_{op}_bf16", out, *given, n, ctypes.c_uint(kinds))
        assert out.tobytes() == want.tobytes(), (a, b)
