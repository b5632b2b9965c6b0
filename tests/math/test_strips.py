"""What every strip promises: no dependence on position or instruction set, scalars, one array for
out and an operand, gathers, and the order of reductions."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.ulp.strips import ROOT, TYPES, Strips, available
from tests.math.built import strips
from tests.math.page import PAGE, families, text

COMPUTE = ["bool", "i32", "i64", "f32", "f64"]
RULES = {
    "SAME": COMPUTE,
    "NUM": COMPUTE[1:],
    "FLOAT": ["f32", "f64"],
    "INT": COMPUTE[:3],
    "CMP": COMPUTE,
    "BOOL": ["bool"],
    "PRED": ["f32", "f64"],
    "SEL": COMPUTE,
    "PART": ["c64", "c128"],
    "PAIR": ["f32", "f64"],
}
ROW = re.compile(r"MAP\(\s*(\w+),\s*(\d),\s*(\w+),")
OPS = [
    (name, int(arity), rule, dtype)
    for name, arity, rule in ROW.findall((ROOT / "csrc/ir/ops.def").read_text())
    if rule not in ("CAST", "BITS")
    for dtype in RULES[rule]
]


def sample(dtype: str, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(np.uint8)
    if dtype.startswith("i"):
        return (rng.integers(-50, 50, n) * rng.choice([1, 1000], n)).astype(TYPES[dtype])
    if dtype.startswith("c"):
        return (rng.normal(size=n) + 1j * rng.normal(size=n)).astype(TYPES[dtype])
    x = rng.normal(size=n) * rng.choice([1e-3, 1, 30, 1e6], n)
    x[rng.integers(0, n, n // 20)] = np.nan
    return x.astype(TYPES[dtype])


def operands(arity: int, rule: str, dtype: str, n: int) -> list[np.ndarray]:
    first = ["bool" if rule == "SEL" else dtype]
    return [sample(d, n, seed) for seed, d in enumerate(first + [dtype] * (arity - 1))]


def result_type(rule: str, dtype: str) -> type[np.generic]:
    if rule in ("PART", "PAIR"):
        return TYPES[{"c64": "f32", "c128": "f64", "f32": "c64", "f64": "c128"}[dtype]]
    return np.uint8 if rule in ("CMP", "PRED") else TYPES[dtype]


def raw(x: np.ndarray) -> bytes:
    """Its bits, with every NaN made the same: which operand's NaN survives is not promised."""
    if x.dtype.kind == "c":
        x = x.view(f"f{x.itemsize // 2}")
    if x.dtype.kind == "f":
        x = np.where(np.isnan(x), np.array(np.nan, x.dtype), x)
    return x.tobytes()


def test_table_is_whole(isa: Strips) -> None:
    missing = [
        f"strip_{name}_{dtype}" for name, _, _, dtype in OPS if f"strip_{name}_{dtype}" not in isa.functions
    ]
    assert not missing


def test_strips_def_has_what_there_is(isa: Strips) -> None:
    """Its members and the elementwise operations are all strips, and no strip is without a row."""
    rows = {f"strip_{member}" for family in families() for member in family.members}
    assert rows | {f"strip_{name}_{dtype}" for name, _, _, dtype in OPS} == isa.functions.keys()


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text() == text(), "python -m tests.math.page"


@pytest.mark.parametrize("name,arity,rule,dtype", OPS)
def test_position_and_masks(isa: Strips, name: str, arity: int, rule: str, dtype: str) -> None:
    n, kind = 67, result_type(rule, dtype)
    x = operands(arity, rule, dtype, n)
    whole = isa.map(name, dtype, *x, out=kind)
    single = [isa.map(name, dtype, *(a[k : k + 1].copy() for a in x), out=kind) for k in range(n)]
    assert raw(np.concatenate(single)) == raw(whole)
    for mask in range(1, 2**arity):
        some = [a[:1].copy() if mask >> k & 1 else a for k, a in enumerate(x)]
        full = [np.repeat(a[:1], n) if mask >> k & 1 else a for k, a in enumerate(x)]
        if mask == 2**arity - 1:
            made = np.empty(n, kind)
            isa.call(f"strip_{name}_{dtype}", made, *some, n, ctypes.c_uint(mask))
        else:
            made = isa.map(name, dtype, *some, out=kind, scalars=mask)
        assert raw(made) == raw(isa.map(name, dtype, *full, out=kind)), mask
    isa.call(f"strip_{name}_{dtype}", np.empty(0, kind), *x, 0, ctypes.c_uint(0))


@pytest.mark.parametrize("name,arity,rule,dtype", OPS)
def test_in_place(isa: Strips, name: str, arity: int, rule: str, dtype: str) -> None:
    n, kind = 67, result_type(rule, dtype)
    x = operands(arity, rule, dtype, n)
    want = isa.map(name, dtype, *x, out=kind)
    for k, a in enumerate(x):
        if a.dtype.itemsize == np.dtype(kind).itemsize:
            own = a.copy()
            isa.call(
                f"strip_{name}_{dtype}",
                own,
                *(own if k == j else b for j, b in enumerate(x)),
                n,
                ctypes.c_uint(0),
            )
            assert raw(own.view(kind)) == raw(want)


@pytest.mark.skipif("avx512" not in available(), reason="needs AVX-512, to compare with AVX2")
@pytest.mark.parametrize("name,arity,rule,dtype", OPS)
def test_instruction_sets_agree(name: str, arity: int, rule: str, dtype: str) -> None:
    x, kind = operands(arity, rule, dtype, 5000), result_type(rule, dtype)
    narrow, wide = (strips(i).map(name, dtype, *x, out=kind) for i in ("avx2", "avx512"))
    assert raw(narrow) == raw(wide)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_written_out(isa: Strips, dtype: str) -> None:
    """The formulas of csrc/fusion/share.c have the bits of the functions."""
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 87.0, -88.7, -104.0, 800.0, -746.0]
    x = np.concatenate([np.array(edges, TYPES[dtype]), np.linspace(-120, 120, 5000).astype(TYPES[dtype])])
    one, zero = np.ones(1, TYPES[dtype]), np.zeros(1, TYPES[dtype])
    e = isa.map("exp", dtype, isa.map("neg", dtype, isa.map("abs", dtype, x)))
    right = isa.map("ge", dtype, x, zero, out=np.uint8, scalars=2)
    over = isa.map("where", dtype, right, one, e, scalars=2)
    sigmoid = isa.map("div", dtype, over, isa.map("add", dtype, e, one, scalars=2))
    assert raw(sigmoid) == raw(isa.map("sigmoid", dtype, x))
    rsqrt = isa.map("reciprocal", dtype, isa.map("sqrt", dtype, x))
    assert raw(rsqrt) == raw(isa.map("rsqrt", dtype, x))


@pytest.mark.parametrize("dtype", COMPUTE)
def test_fill(isa: Strips, dtype: str) -> None:
    value = sample(dtype, 20, 1)[:1]
    assert raw(isa.scratch(f"strip_fill_{dtype}", 9, TYPES[dtype], value, 9)) == raw(np.repeat(value, 9))


def test_iota_and_gather(isa: Strips) -> None:
    assert isa.scratch("strip_iota_i64", 20, np.int64, 5, -3, 20).tolist() == list(range(5, -55, -3))
    for bytes_, kind in ((1, np.uint8), (2, np.uint16), (4, np.uint32), (8, np.uint64)):
        base = np.arange(200).astype(kind)
        index = np.random.default_rng(bytes_).integers(0, 60, 50)
        got = isa.scratch(f"strip_gather_{bytes_}", 50, kind, base, index, 3, 50)
        assert (got == base[index * 3]).all()


@pytest.mark.parametrize("bytes_", [1, 2, 4, 8])
def test_turn(isa: Strips, bytes_: int) -> None:
    """Parts of a matrix, whole squares and rests, steps beyond and below those that are prefetched."""
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[bytes_]
    for rows, columns, step in ((64, 128, 64), (13, 21, 50), (64, 3, 700), (1, 128, 5000), (64, 128, 4999)):
        base = np.arange(columns * step + 64).astype(kind)
        made = np.full(64 * 144, 77, kind)
        isa.call(f"strip_transpose_{bytes_}", made, base, step, rows, columns)
        want = np.full((64, 144), 77, kind)
        want[:rows, :columns] = base[: columns * step].reshape(columns, step)[:, :rows].T
        assert (made.reshape(64, 144) == want).all()


STORED = {
    "1": (np.uint8, np.uint8),
    "4": (np.uint32, np.uint32),
    "8": (np.uint64, np.uint64),
    "16": (np.complex128, np.complex128),
    "u8": (np.uint8, np.int32),
    "i8": (np.int8, np.int32),
    "i16": (np.int16, np.int32),
    "f16": (np.float16, np.float32),
}
GRIDS = [
    (40, 3, 5),
    (7, 3, 3),
    (9, 8, 20),
    (5, 13, 13),
    (3, 64, 70),
    (1, 5, 9),
    (0, 4, 4),
]  # rows, columns, step


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("stride", [0, 1, 2, -1])
def test_take_rows(isa: Strips, name: str, stride: int) -> None:
    """Apart, in any order, and the first one again and again; nothing is written beyond them."""
    stored, computed = STORED[name]
    for rows, columns, step in GRIDS:
        base = np.arange(rows * step + 400).astype(np.uint8).astype(stored)
        order = np.random.default_rng(rows).permutation(rows)
        for at, by in ((None, step), (order, step), (None, 0), (None, -1)):
            first = 130 if stride < 0 or by < 0 else 0
            made = np.full(rows * columns + 8, 99, computed)
            isa.call(
                f"strip_take_{name}",
                made,
                base[first:],
                ctypes.c_void_p(0) if at is None else at,
                by,
                stride,
                rows,
                columns,
            )
            r, c = np.indices((rows, columns))
            want = base[first + (r if at is None else at[r]) * by + c * stride].astype(computed)
            assert (made[:-8].reshape(rows, columns) == want).all()
            assert (made[-8:] == 99).all()


@pytest.mark.parametrize("name", STORED)
def test_put_rows(isa: Strips, name: str) -> None:
    stored, computed = STORED[name]
    for rows, columns, step in GRIDS:
        tile = np.arange(rows * columns).astype(np.uint8).astype(stored).astype(computed)
        for by, stride in ((step, 1), (2 * step, 2), (1, max(rows, 1))):
            made = np.full(rows * step * 2 + columns * max(rows, 2) + 8, 99, stored)
            want = made.copy()
            isa.call(f"strip_put_{name}", made, by, stride, tile, rows, columns)
            r, c = np.indices((rows, columns))
            want[r * by + c * stride] = tile.reshape(rows, columns).astype(stored)
            assert (made == want).all()


def test_bf16_rows(isa: Strips) -> None:
    base = np.arange(16000, 16000 + 300).astype(np.uint16)
    made = np.zeros(60, np.float32)
    isa.call("strip_take_bf16", made, base, ctypes.c_void_p(0), 20, 1, 6, 10)
    want = (base.astype(np.uint32) << 16).view(np.float32)
    assert (made.reshape(6, 10) == want[:120].reshape(6, 20)[:, :10]).all()
    back = base.copy()
    back[:] = 0
    isa.call("strip_put_bf16", back, 20, 1, made, 6, 10)
    assert (back[:120].reshape(6, 20)[:, :10] == base[:120].reshape(6, 20)[:, :10]).all()


def test_iota_rows(isa: Strips) -> None:
    got = isa.scratch("strip_iota_rows_i64", 12, np.int64, 5, 10, -1, 3, 4)
    assert got.tolist() == [5, 4, 3, 2, 15, 14, 13, 12, 25, 24, 23, 22]


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge"])
def test_indices_of_rows(isa: Strips, op: str) -> None:
    end = 2**63 - 1
    value = np.array([0, 4, 5, 6, 7, 8, 50, 95, 132, 133, 134, -end, end, end - 5], np.int64)
    for n in (1, 3, 8, 13, 32, 90, 128):
        want = getattr(np, {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}[op])(
            5 + np.arange(n), value[:, None]
        )
        made = np.full(len(value) * n + 8, 77, np.uint8)
        isa.call(f"strip_index_rows_{op}", made, value, 5, len(value), n)
        assert (made[:-8].reshape(-1, n) == want).all() and (made[-8:] == 77).all()


def test_zips(isa: Strips) -> None:
    for n in (0, 1, 7, 64, 131):
        tiles = np.arange(4 * n).astype(np.uint32).reshape(4, n)
        for count in (2, 3, 4):
            got = isa.scratch(f"strip_zip_{count}", count * n, np.uint32, *tiles[:count].copy(), n)
            assert (got.reshape(n, count) == tiles[:count].T).all()
            back = np.zeros_like(tiles[:count])
            isa.call(f"strip_unzip_{count}", *back, got, n)
            assert (back == tiles[:count]).all()


def test_small_integers_become_float(isa: Strips) -> None:
    for dtype, kind in (("u8", np.uint8), ("i8", np.int8)):
        x = np.arange(256).astype(kind)
        assert (isa.scratch(f"strip_read_{dtype}_f32", 256, np.float32, x, 256) == x).all()


@pytest.mark.parametrize("dtype", ["f32", "u8"])
@pytest.mark.parametrize("stride", [-1, 0, 1, 2, 3, 4, 5])
def test_loads_by_a_step(isa: Strips, dtype: str, stride: int) -> None:
    kind, made = (np.float32, np.float32) if dtype == "f32" else (np.uint8, np.int32)
    for n in (0, 1, 16, 67):
        base = np.arange(700).astype(kind)
        first = base[400:] if stride < 0 else base[: max(n - 1, 0) * stride + 1].copy()
        got = isa.scratch(f"strip_load_{dtype}", n, made, first, stride, n)
        assert (got == base[(400 if stride < 0 else 0) + stride * np.arange(n)]).all()


@pytest.mark.parametrize("second", ["add", "sub"])
def test_two_products(isa: Strips, second: str) -> None:
    """In one strip, in a tile or where their rows lie: the bits of three strips."""
    n = 67
    x = [sample("f32", n, seed) for seed in range(4)]
    for mask in (0, 2, 8, 10):
        full = [np.repeat(a[:1], n) if mask >> k & 1 else a for k, a in enumerate(x)]
        products = [isa.map("mul", "f32", *full[k : k + 2]) for k in (0, 2)]
        want = isa.map(second, "f32", *products)
        made = np.empty(n, np.float32)
        isa.call(f"strip_twice_mul_{second}_f32", made, *x, n, ctypes.c_uint(mask))
        assert raw(made) == raw(want)
    for rows, columns in ((1, 5), (4, 13), (3, 16)):
        whole = [a[: rows * columns] for a in x]
        want = np.empty(rows * columns, np.float32)
        isa.call(f"strip_twice_mul_{second}_f32", want, *whole, rows * columns, ctypes.c_uint(0))
        apart = [np.zeros(rows * (columns + k), np.float32) for k in range(4)]
        for k, a in enumerate(whole):
            apart[k].reshape(rows, -1)[:, :columns] = a.reshape(rows, columns)
        made = np.full(rows * (columns + 2), 7, np.float32)
        operands = [v for k, a in enumerate(apart) for v in (a, columns + k)]
        isa.call(f"strip_in_place_twice_mul_{second}_f32", made, columns + 2, *operands, rows, columns)
        assert raw(made.reshape(rows, -1)[:, :columns].copy().ravel()) == raw(want)
        assert (made.reshape(rows, -1)[:, columns:] == 7).all()


@pytest.mark.parametrize(("first", "other", "second"), [("mul", "add", "mul"), ("add", "mul", "sub")])
def test_both_operands(isa: Strips, first: str, other: str, second: str) -> None:
    """Of an operation, made in the same strip by two: the bits of three strips."""
    n = 67
    x = [sample("f32", n, seed) for seed in range(4)]
    for mask in (0, 2, 8, 10):
        full = [np.repeat(a[:1], n) if mask >> k & 1 else a for k, a in enumerate(x)]
        made = np.empty(n, np.float32)
        want = isa.map(second, "f32", isa.map(first, "f32", *full[:2]), isa.map(other, "f32", *full[2:]))
        isa.call(f"strip_both_{first}_{other}_{second}_f32", made, *x, n, ctypes.c_uint(mask))
        assert raw(made) == raw(want)


@pytest.mark.parametrize("second", ["add", "sub"])
def test_two_products_of_halves(isa: Strips, second: str) -> None:
    x = [(sample("f32", 60, seed).view(np.uint32) >> 16).astype(np.uint16) for seed in range(4)]
    wide = [(a.astype(np.uint32) << 16).view(np.float32) for a in x]

    def rounded(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        tile = isa.map(op, "f32", a, b)
        isa.call("strip_round_bf16", tile, len(tile))
        return tile

    want = rounded(second, rounded("mul", *wide[:2]), rounded("mul", *wide[2:]))
    operands = [v for a in x for v in (a, 20)]
    made = isa.scratch(f"strip_in_place_twice_mul_{second}_bf16", 60, np.uint16, 20, *operands, 3, 20)
    assert raw((made.astype(np.uint32) << 16).view(np.float32)) == raw(want)


GATHERS = [("sum", "f32"), ("sum", "f64"), ("sum", "bf16"), ("amax", "f32"), ("amin", "f32")]


@pytest.mark.parametrize("red,dtype", GATHERS)
def test_gathered_rows(isa: Strips, red: str, dtype: str) -> None:
    """Rows anywhere go into a tile one after the other."""
    wide = "f64" if dtype == "f64" else "f32"
    combine = {"sum": "add", "amax": "maximum", "amin": "minimum"}[red]
    values = sample(wide, 40 * 30, 3)
    base = (values.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bf16" else values
    read = (base.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else values
    for rows, n in ((0, 5), (3, 20), (8, 17), (21, 30)):
        at = np.random.default_rng(rows).integers(0, 40, rows)
        want = sample(wide, n, 9)
        made = want.copy()
        for k in at:
            want = isa.map(combine, wide, want, read[k * 30 : k * 30 + n].copy())
        isa.call(f"strip_gathered_{red}_{dtype}", made, base, at, 30, rows, n)
        assert raw(made) == raw(want)


def test_check_index(isa: Strips) -> None:
    index, out = np.array([0, 4, -1, -5], np.int64), np.empty(4, np.int64)

    def check(index: np.ndarray, size: int, wrap: int) -> bool:
        args = index, size, ctypes.c_int(wrap), out, len(index)
        return isa.call("strip_check_index", *args, result=ctypes.c_int) != 0

    assert not check(index, 5, 1) and out.tolist() == [0, 4, 4, 0]
    assert check(index, 5, 0) and check(index, 4, 1) and not check(index[:2], 5, 0)
    assert check(np.array([-6]), 5, 1) and check(np.array([5]), 5, 1) and check(np.array([0]), 0, 1)


def test_one_hot(isa: Strips) -> None:
    end = 2**63 - 1
    for start, n, value in (
        (0, 70, 69),
        (5, 70, 75),
        (5, 70, 4),
        (-3, 9, 0),
        (-3, 9, end),
        (end - 1, 9, end),
    ):
        got = isa.scratch("strip_one_hot", n, np.uint8, np.array([value]), start, n)
        assert got.tolist() == [start + k == value for k in range(n)], (start, n, value)


STEP = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "amax": lambda a, b: a if a != a or a > b else b,
    "amin": lambda a, b: a if a != a or a < b else b,
}


def start(red: str, dtype: str) -> np.generic:
    t = TYPES[dtype]
    if red in ("sum", "prod"):
        return t(red == "prod")
    if dtype == "bool":
        return t(red == "amin")
    limit = np.finfo(t) if dtype.startswith("f") else np.iinfo(t)
    ends = (-t(np.inf), t(np.inf)) if dtype.startswith("f") else (limit.min, limit.max)
    return t(ends[red == "amin"])


def in_order(red: str, dtype: str, x: np.ndarray) -> np.generic:
    """One block in the order of the language: 16 lanes, then halves."""
    lanes = [start(red, dtype)] * 16
    for k, v in enumerate(x):
        lanes[k % 16] = STEP[red](lanes[k % 16], v)
    for half in (8, 4, 2, 1):
        lanes = [STEP[red](lanes[k], lanes[k + half]) for k in range(half)]
    return lanes[0]


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
@pytest.mark.parametrize("red", ["sum", "prod", "amax", "amin"])
def test_reduce_order(isa: Strips, red: str, dtype: str) -> None:
    kind = np.ctypeslib.as_ctypes_type(TYPES[dtype])
    x = sample(dtype, 1024, 4)
    x = np.where(np.isnan(x), 0, x).astype(TYPES[dtype])
    if red == "prod":
        x = (1 + x / 1e9).astype(TYPES[dtype]) if dtype.startswith("f") else x | 1
    with np.errstate(over="ignore"):
        for n in [*range(70), 127, 128, 500, 1000, 1023, 1024]:
            got = isa.call(f"strip_reduce_{red}_{dtype}", x, n, result=kind)
            want = in_order(red, dtype, x[:n])
            assert raw(np.array([got], TYPES[dtype])) == raw(np.array([want], TYPES[dtype])), n
    if dtype.startswith("f") and red in ("amax", "amin"):
        zeros = np.where(np.arange(40) % 3 == 0, -0.0, 0.0).astype(TYPES[dtype])
        for n in range(1, 41):  # of two zeros the sign tells which was taken
            got = isa.call(f"strip_reduce_{red}_{dtype}", zeros, n, result=kind)
            assert np.signbit(TYPES[dtype](got)) == np.signbit(in_order(red, dtype, zeros[:n])), n
        for at in (0, 15, 16, 700, 1023):
            with_nan = x.copy()
            with_nan[at] = np.nan
            assert np.isnan(isa.call(f"strip_reduce_{red}_{dtype}", with_nan, 1024, result=kind)), at


@pytest.mark.parametrize("red,dtype", [("sum", "f32"), ("sum", "f64"), ("amax", "f32"), ("amin", "f32")])
def test_reductions_of_rows(isa: Strips, red: str, dtype: str) -> None:
    """Rows that follow each other and rows that overlap: each the bits of a block."""
    kind = np.ctypeslib.as_ctypes_type(TYPES[dtype])
    x = sample(dtype, 1200, 8)
    for rows, n, step in ((1, 5, 5), (7, 16, 16), (3, 40, 3), (9, 90, 90), (2, 128, 0), (0, 4, 4)):
        made = isa.scratch(f"strip_rows_{red}_load_{dtype}", rows, TYPES[dtype], x, step, x, 0, rows, n, 0)
        blocks = [x[r * step : r * step + n].copy() for r in range(rows)]
        want = [isa.call(f"strip_reduce_{red}_{dtype}", block, n, result=kind) for block in blocks]
        assert raw(made) == raw(np.array(want, TYPES[dtype]))


@pytest.mark.parametrize("form", ["mul", "square_sub"])
@pytest.mark.parametrize("scalar", [0, 2])
def test_folds_of_rows(isa: Strips, form: str, scalar: int) -> None:
    a, b = sample("f32", 900, 5), sample("f32", 900, 6)
    for rows, n, step in ((5, 16, 0), (4, 21, 30), (1, 3, 3), (6, 64, 64)):
        made = isa.scratch(f"strip_rows_sum_{form}_f32", rows, np.float32, a, n, b, step, rows, n, scalar)
        want = [
            isa.call(
                f"strip_fold_sum_{form}_f32",
                a[r * n : r * n + n].copy(),
                b[r * step : r * step + n].copy(),
                n,
                ctypes.c_uint(scalar),
                result=ctypes.c_float,
            )
            for r in range(rows)
        ]
        assert raw(made) == raw(np.array(want, np.float32))


FOLD = re.compile(r"FOLD\(\s*(\w+),\s*2,\s*(\w+)\)")
FOLDS = FOLD.findall((ROOT / "csrc/codegen/strips/fused.def").read_text())


@pytest.mark.parametrize("red,strip", FOLDS)
def test_folds(isa: Strips, red: str, strip: str) -> None:
    """A reduction of what a strip makes has the bits of the two one after the other."""
    a, b = sample("f32", 1024, 5), sample("f32", 1024, 6)
    a, b = np.nan_to_num(a) % 5, np.nan_to_num(b) % 7
    a[:9] = b[:9] = -0.0
    for nan in (False, True):
        a[300] = np.nan if nan else 1
        for mask, n in ((m, n) for m in range(3) for n in (1, 2, 15, 16, 17, 100, 1000, 1023, 1024)):
            made = isa.map(strip, "f32", a[: 1 if mask & 1 else n], b[: 1 if mask & 2 else n], scalars=mask)
            want = isa.call(f"strip_reduce_{red}_f32", made, n, result=ctypes.c_float)
            name, scalars = f"strip_fold_{red}_{strip}_f32", ctypes.c_uint(mask)
            got = isa.call(name, a, b, n, scalars, result=ctypes.c_float)
            assert raw(np.array([got], np.float32)) == raw(np.array([want], np.float32)), (mask, n)


def test_reduce_bool(isa: Strips) -> None:
    for n in (0, 1, 15, 16, 17, 1000):
        for ones in ([], [n - 1], list(range(n))):
            x = np.zeros(max(n, 1), np.uint8)
            x[[k for k in ones if k >= 0]] = 1
            for red, want in (("any", x[:n].any()), ("all", x[:n].all())):
                assert isa.call(f"strip_reduce_{red}_bool", x, n, result=ctypes.c_uint8) == want


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
def test_reduce_arg(isa: Strips, dtype: str) -> None:
    kind = TYPES[dtype]
    cases = [sample(dtype, n, n) for n in (1, 2, 17, 100, 1024)]
    cases += [
        np.array([5, 7, 7, 2, 2], kind),
        np.full(40, start("amax", dtype)).astype(kind),
        np.full(40, start("amin", dtype)).astype(kind),
    ]
    if dtype.startswith("f"):
        cases += [np.array([0.0, -0.0, 0.0], kind), np.array([1, np.nan, 9, np.nan], kind)]
    for x in cases:
        for red, pick in (("argmax", np.argmax), ("argmin", np.argmin)):
            best = np.zeros(1, kind)
            at = isa.call(f"strip_reduce_{red}_{dtype}", x, len(x), best, result=ctypes.c_int64)
            assert at == pick(x) and raw(best) == raw(x[at : at + 1])


@pytest.mark.parametrize("red", ["argmax", "argmin"])
def test_places_of_long_rows(isa: Strips, red: str) -> None:
    """Where lanes keep places: of each remainder, with equals in all lanes, NaN, nothing further."""
    rng = np.random.default_rng(0)
    pick = {"argmax": np.argmax, "argmin": np.argmin}[red]
    for n in [*range(126, 195), 1000, 1023, 1024]:
        few = rng.integers(-2, 3, n).astype(np.float32)
        zeros = np.where(rng.random(n) < 0.5, np.float32(0), np.float32(-0.0))
        alone = np.zeros(n, np.float32)
        alone[n - 1] = 1 if red == "argmax" else -1
        rows = [few, zeros, alone, *(np.full(n, v, np.float32) for v in (np.inf, -np.inf, np.nan))]
        for at in (0, 15, 17, n // 2, n - 1):
            rows += [np.where(np.arange(n) >= at, np.float32(v), few) for v in (np.nan, np.inf, -np.inf)]
        for x in rows:
            best = np.zeros(1, np.float32)
            found = isa.call(f"strip_reduce_{red}_f32", x, n, best, result=ctypes.c_int64)
            assert found == pick(x) and raw(best) == raw(x[found : found + 1]), (n, x)


DRIVER = """
#include "ir/math/prelude.h"
#include "codegen/emit/prelude_reduce.h"
#include "codegen/emit/prelude_transpose.h"
#include "codegen/emit/prelude_scan.h"
float block_loop(const float *a, int64_t n)
{
    float lanes[16];
    for (int k = 0; k < 16; k++) lanes[k] = dlc_identity_sum_f32();
    for (int64_t t = 0; t < n; t++) lanes[t % 16] = dlc_combine_sum_f32(lanes[t % 16], a[t]);
    return dlc_lanes_sum_f32(lanes);
}
float fold(const float *a, int64_t blocks)
{
    float stack[64];
    int64_t count = 0;
    for (int64_t k = 0; k < blocks; k++) dlc_pairs_push_sum_f32(stack, &count, a[k]);
    return dlc_pairs_fold_sum_f32(stack, count);
}
int64_t first(const float *a, int64_t n)
{
    dlc_arg_f32 stack[64];
    int64_t count = 0;
    for (int64_t k = 0; k < n; k++) dlc_pairs_push_argmax_f32(stack, &count, (dlc_arg_f32){a[k], k});
    return dlc_pairs_fold_argmax_f32(stack, count).index;
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    from benchmarks.ulp.strips import CSRC, build

    source: Path = tmp_path_factory.mktemp("driver") / "driver.c"
    source.write_text(DRIVER)
    library = build("driver", source, "-O2", "-march=native", f"-I{CSRC}")
    library.block_loop.restype = library.fold.restype = ctypes.c_float
    library.first.restype = ctypes.c_int64
    return library


def test_strips_reduce_as_loops_do(best: Strips, driver: ctypes.CDLL) -> None:
    x = np.nan_to_num(sample("f32", 1024, 8))
    for n in range(1025):
        n64, at = ctypes.c_int64(n), ctypes.c_void_p(x.ctypes.data)
        strip = best.call("strip_reduce_sum_f32", x, n, result=ctypes.c_float)
        assert np.float32(strip) == np.float32(driver.block_loop(at, n64)), n


def pairwise(x: list[np.float32]) -> np.float32:
    """The binary counter's tree, by definition: equal powers of two from the left, then folded."""
    stack: list[tuple[int, np.float32]] = []
    for v in x:
        stack.append((1, v))
        while len(stack) > 1 and stack[-1][0] == stack[-2][0]:
            (size, newer), (_, older) = stack.pop(), stack.pop()
            stack.append((2 * size, older + newer))
    total = stack.pop()[1] if stack else np.float32(0)
    while stack:
        total = stack.pop()[1] + total
    return total


def test_pairs(driver: ctypes.CDLL) -> None:
    x = np.nan_to_num(sample("f32", 80, 6))
    at = ctypes.c_void_p(x.ctypes.data)
    for n in range(81):
        assert np.float32(driver.fold(at, ctypes.c_int64(n))) == pairwise(list(x[:n])), n
    y = np.array([1, 5, np.nan, 5, np.nan], np.float32)
    pointer = ctypes.c_void_p(y.ctypes.data)
    assert [driver.first(pointer, ctypes.c_int64(n)) for n in (1, 2, 3, 5)] == [0, 1, 2, 2]


NONTEMPORAL = re.compile(r"NONTEMPORAL\(\s*(\d),\s*(\w+)\)")
NONTEMPORAL = NONTEMPORAL.findall((ROOT / "csrc/codegen/strips/fused.def").read_text())


@pytest.mark.parametrize("arity,strip", NONTEMPORAL)
def test_nontemporal_stores(isa: Strips, arity: str, strip: str) -> None:
    """The same elements, wherever lines begin, and none but these."""
    count, room = int(arity), 160
    memory = np.zeros(room + 16, np.float32)
    first = (-memory.ctypes.data // 4) % 16
    for mask in range((1 << count) - 1):
        if strip.startswith(("both_", "choose_")) and mask & 5:
            continue
        for at, n in ((at, n) for at in (0, 1, 15) for n in (1, 15, 16, 17, 33, 100)):
            inputs = [sample("f32", 1 if mask >> k & 1 else n, k) for k in range(count)]
            want = isa.map(strip, "f32", *inputs, scalars=mask)
            memory[:] = 7
            out = memory[first + at : first + at + n]
            isa.call(f"strip_nontemporal_{strip}_f32", out, *inputs, n, ctypes.c_uint(mask))
            isa.call("strip_stream_end")
            assert raw(out.copy()) == raw(want[:n]), (mask, at, n)
            assert (memory[: first + at] == 7).all() and (memory[first + at + n :] == 7).all()
