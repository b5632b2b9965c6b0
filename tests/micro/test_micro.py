"""Each function of the microkernels has the bits of chains of 256 fused multiply-adds, added in order: for
every dtype, height, stride and cut, and on every instruction set."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from benchmarks.ulp.strips import CSRC
from tests.micro.library import (
    CHAIN,
    PANELS,
    ROWS,
    STORED,
    SUMS,
    Array,
    Micro,
    available,
    micro,
    reference,
    width,
)

LENGTHS = [0, 1, 3, 4, 127, 128, 129, 255, 256, 257, 800]


@pytest.fixture(scope="module", params=available())
def isa(request: pytest.FixtureRequest) -> Micro:
    return micro(request.param)


@pytest.fixture(params=list(SUMS))
def dtype(request: pytest.FixtureRequest) -> str:
    return request.param


def sample(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    kind = np.dtype(STORED[dtype])
    if dtype != "bf16" and kind.kind in "iu":
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, kind, endpoint=True)
    x = rng.normal(size=shape) * rng.choice([1e-2, 1, 50], shape)
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(kind) if dtype == "bf16" else x.astype(kind)


def laid_out(rng: np.random.Generator, x: Array) -> Array:
    """A matrix of that size with strides drawn at random: either side adjacent, gaps, every second row or
    column, from the end backwards, rows that share a set of the cache, one row or column again and again."""
    rows, columns = x.shape
    form = rng.integers(11)
    if form == 0:
        return x.copy()
    if form == 1:
        return x.T.copy().T
    if form == 2:
        room = np.zeros((rows, columns + 5), x.dtype)
        room[:, 2 : columns + 2] = x
        return room[:, 2 : columns + 2]
    if form == 3:
        room = np.zeros((columns, rows + 3), x.dtype)
        room[:, :rows] = x.T
        return room[:, :rows].T
    if form == 4:
        room = np.zeros((2 * rows, 3 * columns), x.dtype)
        room[::2, ::3] = x
        return room[::2, ::3]
    if form == 5:
        room = np.zeros((rows, 4096 * (columns // 4096 + 1)), x.dtype)
        room[:, :columns] = x
        return room[:, :columns]
    if form == 6:
        return np.repeat(x, 2, 0)[::2]
    if form == 7:
        return np.repeat(x, 2, 1)[:, ::2]
    if form == 8:
        return np.broadcast_to(x[:1], x.shape)
    if form == 9:
        return np.broadcast_to(x[:, :1], x.shape)
    return x[::-1, ::-1].copy()[::-1, ::-1]


def raw(x: Array) -> bytes:
    """Its bits; which NaN of several is in a sum is not promised."""
    return (np.where(np.isnan(x), np.array(np.nan, x.dtype), x) if x.dtype.kind == "f" else x).tobytes()


def fused(isa: Micro) -> bool:
    return isa.name != "sse2"


def operands(rng: np.random.Generator, dtype: str, rows: int, k: int, columns: int) -> tuple[Array, Array]:
    a, b = sample(rng, dtype, (rows, k)), sample(rng, dtype, (k, columns))
    return laid_out(rng, a), laid_out(rng, b)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("k", LENGTHS)
def test_pack(isa: Micro, dtype: str, k: int) -> None:
    rng, full = np.random.default_rng(k), width(dtype)
    for columns in (1, full // 2 - 1, full - 1, full, full, full):
        b = laid_out(rng, sample(rng, dtype, (k, columns)))
        want = np.zeros((k, full), STORED[PANELS[dtype]])
        want[:, :columns] = (b.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else b
        assert raw(isa.pack(dtype, b)) == raw(want), (columns, b.strides)


@pytest.mark.parametrize(("k", "each"), [(40, 9), (5, 49), (3, 300), (33, 1)])
def test_pack_scattered(isa: Micro, dtype: str, k: int, each: int) -> None:
    """A sum in another order than that of memory, where this is one of adjacent elements and where not."""
    rng, full = np.random.default_rng(k), width(dtype)
    for columns, gap in ((1, 0), (full, 0), (full, 3)):
        room = sample(rng, dtype, (columns, k * (each + gap)))
        b = room.reshape(columns, k, each + gap)[..., :each].transpose(1, 2, 0)
        panel = isa.scattered(dtype, b)
        want = np.full_like(panel, 77)
        for e in range(each):
            want[e, :k] = isa.pack(dtype, b[:, e])
        assert raw(panel) == raw(want), (columns, gap)


@pytest.mark.parametrize("rows", range(1, ROWS + 1))
def test_products(isa: Micro, dtype: str, rows: int) -> None:
    rng = np.random.default_rng(rows)
    for k in LENGTHS:
        a, b = operands(rng, dtype, rows, k, width(dtype))
        panel = isa.pack(dtype, b)
        want = reference(dtype, a, b, fused=fused(isa))
        assert raw(isa.micro(dtype, a, panel)) == raw(want), (k, a.strides)
        assert raw(isa.micro(dtype, a, panel, first=True, result=64)) == raw(want), k
        assert raw(isa.micro(dtype, a, panel, prefetched=64)) == raw(want), k
        tile = sample(rng, SUMS[dtype], want.shape)
        more = reference(dtype, a, b, tile, fused=fused(isa))
        assert raw(isa.micro(dtype, a, panel, tile)) == raw(more), k


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("rows", range(1, ROWS + 1))
def test_each_number_of_columns(isa: Micro, dtype: str, rows: int) -> None:
    """Of two panels, the second of which has some: kernels are as wide as what is left needs."""
    rng, full = np.random.default_rng(rows), width(dtype)
    a, b = operands(rng, dtype, rows, 37, 2 * full)
    panels = np.stack([isa.pack(dtype, b[:, :full]), isa.pack(dtype, b[:, full:])])
    tile = sample(rng, SUMS[dtype], (rows, 2 * full))
    want = reference(dtype, a, b, fused=fused(isa))
    more = reference(dtype, a, b, tile.copy(), fused=fused(isa))
    for columns in range(1, 2 * full + 1):
        assert raw(isa.micro(dtype, a, panels, columns=columns)) == raw(want[:, :columns]), columns
        part = np.ascontiguousarray(tile[:, :columns])
        assert raw(isa.micro(dtype, a, panels, part, columns)) == raw(more[:, :columns]), columns


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("rows", range(1, ROWS + 1))
def test_several_panels(isa: Micro, dtype: str, rows: int) -> None:
    rng, full = np.random.default_rng(rows), width(dtype)
    for count, k in itertools.product((1, 2, 3, 4, 5), (0, 1, 513, 1500)):
        a, b = operands(rng, dtype, rows, k, count * full)
        panels = np.zeros((count, k + 2, full), STORED[PANELS[dtype]])
        for j in range(count):
            panels[j, :k] = isa.pack(dtype, b[:, j * full : (j + 1) * full])
        near, columns = panels[:, :k], int(rng.integers((count - 1) * full, count * full)) + 1
        want = reference(dtype, a, b, fused=fused(isa))[:, :columns]
        assert raw(isa.micro(dtype, a, near, columns=columns)) == raw(want), (count, k)
        tile = sample(rng, SUMS[dtype], want.shape)
        more = reference(dtype, a, b[:, :columns], tile, fused=fused(isa))
        assert raw(isa.micro(dtype, a, near, tile, columns)) == raw(more), (count, k)


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("rows", range(1, ROWS + 1))
def test_unpacked(isa: Micro, dtype: str, rows: int) -> None:
    rng, full = np.random.default_rng(rows), width(dtype)
    widths = (1, full // 2 + 1, full - 1, full, full + 1, 2 * full, 3 * full + 1)
    for columns, k in itertools.product(widths, LENGTHS):
        a, b = sample(rng, dtype, (rows, k)), sample(rng, dtype, (k, columns))
        adjacent = np.ascontiguousarray(b.T).T
        line = sample(rng, dtype, (k + columns,))
        windows = np.lib.stride_tricks.as_strided(line, (k, columns), 2 * line.strides)
        for x, y in (
            (a, adjacent),
            (a, windows),
            (laid_out(rng, a), adjacent),
            (a, b),
            (laid_out(rng, a), laid_out(rng, b)),
        ):
            want = reference(dtype, x, y, fused=fused(isa))
            assert raw(isa.unpacked(dtype, x, y)) == raw(want), (columns, k, y.strides)
            tile = sample(rng, SUMS[dtype], want.shape)
            more = reference(dtype, x, y, tile.copy(), fused=fused(isa))
            assert raw(isa.unpacked(dtype, x, y, tile)) == raw(more), (columns, k, y.strides)


def test_cuts(isa: Micro, dtype: str) -> None:
    """A product in blocks of rows, columns and chains, with A in place or packed, has the same bits."""
    rng, full = np.random.default_rng(3), width(dtype)
    for _ in range(10):
        rows, k, columns = (
            int(rng.integers(1, 40)),
            int(rng.integers(1, 2500)),
            int(rng.integers(1, 3 * full)),
        )
        a, b = operands(rng, dtype, rows, k, columns)
        made = np.zeros((rows, columns), STORED[SUMS[dtype]])
        for j in range(0, columns, full):
            i = 0
            while i < rows:
                height = min(int(rng.integers(1, ROWS + 1)), rows - i)
                tile, p = None, 0
                while p < k:
                    n = min(int(rng.integers(1, 4)) * CHAIN, k - p)
                    panel = isa.pack(dtype, b[p : p + n, j : j + full])
                    part = a[i : i + height, p : p + n]
                    if rng.integers(2):
                        part = isa.pack(dtype, part.T).T[:height]
                        tile = isa.micro(PANELS[dtype], part, panel, tile)
                    else:
                        tile = isa.micro(dtype, part, panel, tile)
                    p += n
                made[i : i + height, j : j + full] = tile[:, : columns - j]
                i += height
        assert raw(made) == raw(reference(dtype, a, b, fused=fused(isa)))


@pytest.mark.parametrize(
    ("groups", "runs", "run"), [(3, 1, 192), (3, 3, 64), (7, 1, 21), (5, 4, 7), (2, 2, 300)]
)
def test_runs(isa: Micro, dtype: str, groups: int, runs: int, run: int) -> None:
    """Elements of a sum in runs have the bits of adjacent ones, from any chain on."""
    rng = np.random.default_rng(run)
    room = sample(rng, dtype, (14 + groups, 3 * runs + 2, 2 * run + 5))
    part = room.strides[0], room.strides[0], 2 * room.strides[1], 2 * room.itemsize
    k = groups * runs * run
    b = sample(rng, dtype, (k, width(dtype)))
    for rows in (1, 3, 7, 14):
        a = np.lib.stride_tricks.as_strided(room, (rows, groups, runs, run), part)
        for first in range(0, k, CHAIN):
            panel, x = isa.pack(dtype, b[first:]), a.reshape(rows, k)[:, first:]
            want = reference(dtype, x, b[first:], fused=fused(isa))
            assert raw(isa.over_runs(dtype, a, k - first, first, panel)) == raw(want), (rows, first)
            tile = sample(rng, SUMS[dtype], want.shape)
            more = reference(dtype, x, b[first:], tile.copy(), fused=fused(isa))
            assert raw(isa.over_runs(dtype, a, k - first, first, panel, tile)) == raw(more), (rows, first)


@pytest.mark.parametrize(("groups", "run"), [(3, 3), (2, 150)])
def test_each(isa: Micro, dtype: str, groups: int, run: int) -> None:
    """Each column has the bits of a product of its own."""
    rng = np.random.default_rng(run)
    for rows, columns in ((1, 1), (3, 17), (14, 41), (7, 64), (5, 13), (11, 9)):
        room = sample(rng, dtype, (2 * rows + groups, run + 1, columns + 2))
        strides = 2 * room.strides[0], room.strides[0], *room.strides[1:]
        a = np.lib.stride_tricks.as_strided(room, (rows, groups, run, columns), strides)
        b = sample(rng, dtype, (groups * run, columns + 3))[:, :columns]
        want = np.empty((rows, columns), STORED[SUMS[dtype]])
        tile = sample(rng, SUMS[dtype], want.shape)
        more = want.copy()
        for j in range(columns):
            x, y = a[..., j].reshape(rows, -1), b[:, j : j + 1]
            want[:, j : j + 1] = reference(dtype, x, y, fused=fused(isa))
            more[:, j : j + 1] = reference(dtype, x, y, tile[:, j : j + 1].copy(), fused=fused(isa))
        assert raw(isa.each(dtype, a, len(b), b)) == raw(want), (rows, columns)
        assert raw(isa.each(dtype, a, len(b), b, tile)) == raw(more), (rows, columns)


def test_instruction_sets_agree(dtype: str) -> None:
    sets = [micro(name) for name in available() if name != "sse2"]
    rng = np.random.default_rng(9)
    a, b = operands(rng, dtype, 13, 1337, width(dtype))
    assert len({raw(isa.micro(dtype, a, isa.pack(dtype, b))) for isa in sets}) <= 1


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"], indirect=True)
def test_not_finite(isa: Micro, dtype: str) -> None:
    """NaN and infinity reach the elements of their row and column alone."""
    edges = [np.nan, np.inf, -np.inf, -0.0, 0.0]
    a, b = (np.ones(shape, np.float32) for shape in ((9, 600), (600, width(dtype))))
    for n, value in enumerate(edges):
        a[n, 100 * n] = b[37 * n, n] = value
    a[7], b[:, 7] = -0.0, 0.0
    if dtype == "bf16":
        a, b = ((x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b))
    a, b = a.astype(STORED[dtype]), b.astype(STORED[dtype])
    want = reference(dtype, a, b, fused=fused(isa))
    assert np.isnan(want[0]).all() and np.isposinf(want[1, 10]) and np.isfinite(want[8, 12])
    panel = isa.pack(dtype, b)
    assert raw(isa.micro(dtype, a, panel)) == raw(want)
    assert raw(isa.unpacked(dtype, a, b)) == raw(want)
    assert raw(isa.unpacked(dtype, a, np.ascontiguousarray(b.T).T)) == raw(want)


@pytest.mark.parametrize("dtype", ["u8", "i8"], indirect=True)
def test_bytes_do_not_saturate(isa: Micro, dtype: str) -> None:
    """The largest products of bytes, of either sign: pairs of them would not fit in words."""
    info = np.iinfo(STORED[dtype])
    for low, high in itertools.product((info.min, info.max), repeat=2):
        a, b = np.full((14, 1031), low, info.dtype), np.full((1031, 32), high, info.dtype)
        want = a.astype(np.int32) @ b.astype(np.int32)
        assert raw(isa.micro(dtype, a, isa.pack(dtype, b))) == raw(want)
        assert raw(isa.unpacked(dtype, a, b)) == raw(want)


def test_the_readme_has_the_table() -> None:
    """One row for each of micro.def."""
    text = (CSRC / "codegen/micro/README.md").read_text()
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\d+) \|$", text, re.M)
    assert rows == [(dtype, sums, str(width(dtype))) for dtype, sums in SUMS.items()]
