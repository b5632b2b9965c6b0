"""Integer and bool functions, casts and storage conversions against eager and Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from benchmarks.ulp.strips import TYPES, Strips

TORCH = {
    "bool": torch.bool,
    "u8": torch.uint8,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
COMPUTE = ["bool", "i32", "i64", "f32", "f64"]


def integers(dtype: str) -> np.ndarray:
    width = 31 if dtype == "i32" else 63
    sizes = [0, 1, 2, 3, 7, 30, 31, 32, 63, 64, 100, 2**16 + 1, 2**width - 1]
    values = sorted({*sizes, *(-s for s in sizes), -(2**width)})
    return np.array(values, dtype=TYPES[dtype])


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    product = list(itertools.product(integers(dtype), repeat=2))
    return tuple(np.array(side, dtype=TYPES[dtype]) for side in zip(*product, strict=True))


@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize("op", ["div_trunc", "div_floor", "fmod", "remainder"])
def test_division(isa: Strips, op: str, dtype: str) -> None:
    a, b = pairs(dtype)
    got = isa.map(op, dtype, a, b)
    bits = 32 if dtype == "i32" else 64
    for x, y, r in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        floor = x // y if y else 0
        trunc = (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) if y else 0
        want = {"div_trunc": trunc, "div_floor": floor, "fmod": x - trunc * y, "remainder": x - floor * y}[op]
        want = (want + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
        assert r == want, (op, x, y)


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_shifts_and_bits(isa: Strips, dtype: str) -> None:
    a, b = pairs(dtype)
    ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    assert (isa.map("shl", dtype, a, b) == (ta << tb).numpy()).all()
    assert (isa.map("shr", dtype, a, b) == (ta >> tb).numpy()).all()
    assert (isa.map("bit_not", dtype, a) == (~ta).numpy()).all()
    assert (isa.map("abs", dtype, a) == ta.abs().numpy()).all()
    assert (isa.map("sign", dtype, a) == ta.sign().numpy()).all()
    for op in ("add", "sub", "mul", "maximum", "minimum"):
        assert (isa.map(op, dtype, a, b) == getattr(torch, op)(ta, tb).numpy()).all(), op


def test_bool(isa: Strips) -> None:
    a, b = np.array([0, 0, 1, 1], np.uint8), np.array([0, 1, 0, 1], np.uint8)
    assert isa.map("bit_not", "bool", a).tolist() == [1, 1, 0, 0]
    assert isa.map("not", "bool", a).tolist() == [1, 1, 0, 0]
    assert isa.map("bit_xor", "bool", a, b).tolist() == [0, 1, 1, 0]
    assert isa.map("maximum", "bool", a, b).tolist() == [0, 1, 1, 1]
    assert isa.map("shl", "bool", a, b).tolist() == [0, 0, 1, 0]
    assert isa.map("lt", "bool", a, b).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("source", COMPUTE)
@pytest.mark.parametrize("target", COMPUTE)
def test_casts(isa: Strips, source: str, target: str) -> None:
    if source == "bool":
        x = np.array([0, 1] * 10, np.uint8)
    elif source.startswith("i"):
        x = integers(source)
    else:
        big = [s * m for s in (1, -1) for m in (2.0**31, 2.0**31 - 129, 2.0**63, 2.0**32 + 512, 1e30)]
        x = np.array(
            [
                0,
                -0.0,
                0.5,
                -0.5,
                1.9,
                -1.9,
                1e-40,
                *big,
                np.inf,
                -np.inf,
                np.nan,
                3e9,
                -3e9,
                2147483647.5,
                -2147483648.5,
            ],
            dtype=TYPES[source],
        )
    t = torch.from_numpy(x).to(TORCH[source]).to(TORCH[target])
    want = t.view(torch.uint8).numpy() if target == "bool" else t.numpy()
    got = isa.scratch(f"strip_cast_{source}_{target}", len(x), TYPES[target], x, len(x))
    assert np.array_equal(got, want, equal_nan=target.startswith("f"))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_loads(isa: Strips, dtype: str) -> None:
    u = np.arange(65536, dtype=np.uint16)
    want = torch.from_numpy(u).view(TORCH[dtype]).float().numpy()
    got = isa.scratch(f"strip_load_{dtype}", 65536, np.float32, u, 1, 65536)
    assert np.array_equal(got, want, equal_nan=True)
    assert (np.signbit(got) == np.signbit(want)).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_stores(isa: Strips, dtype: str) -> None:
    """Values on, beside and between the numbers of the narrow format; then a spread of all floats."""
    exact = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(TORCH[dtype]).float().numpy()
    exact = exact[np.isfinite(exact)]
    between = np.sort(exact)[:-1] / 2 + np.sort(exact)[1:] / 2
    x = np.concatenate(
        [
            exact,
            between,
            np.nextafter(between, np.float32(np.inf)),
            np.nextafter(between, -np.float32(np.inf)),
            np.arange(0, 2**32, 65537, dtype=np.uint64).astype(np.uint32).view(np.float32),
            np.array([np.inf, -np.inf, np.nan, 65519.99, 65520, -65520, 3.4e38], np.float32),
        ]
    ).astype(np.float32)
    got = isa.scratch(f"strip_store_{dtype}", len(x), np.uint16, 1, x, len(x))
    want = torch.from_numpy(x).to(TORCH[dtype])
    back = torch.from_numpy(got).view(TORCH[dtype])
    assert torch.equal(back.isnan(), want.isnan())
    plain = ~want.isnan()
    assert torch.equal(back[plain].view(torch.int16), want[plain].view(torch.int16))
    tile = x.copy()
    isa.call(f"strip_round_{dtype}", tile, len(x))
    assert np.array_equal(tile, want.float().numpy(), equal_nan=True)


@pytest.mark.parametrize("dtype", ["u8", "i8", "i16"])
def test_wraps(isa: Strips, dtype: str) -> None:
    x = integers("i32")
    want = torch.from_numpy(x).to(TORCH[dtype])
    tile = x.copy()
    isa.call(f"strip_wrap_{dtype}", tile, len(x))
    assert (tile == want.int().numpy()).all()
    assert (isa.scratch(f"strip_store_{dtype}", len(x), TYPES[dtype], 1, x, len(x)) == want.numpy()).all()


@pytest.mark.parametrize("dtype", list(TYPES))
@pytest.mark.parametrize("stride", [1, 0, 3, -2])
def test_strides(isa: Strips, dtype: str, stride: int) -> None:
    n, rng = 37, np.random.default_rng(2)
    store = rng.integers(0, 2 if dtype == "bool" else 100, 250).astype(TYPES[dtype])
    compute = {"u8": np.int32, "i8": np.int32, "i16": np.int32, "f16": np.float32, "bf16": np.float32}.get(
        dtype, TYPES[dtype]
    )
    at = np.arange(n) * stride + 100
    picked = isa.scratch(f"strip_load_{dtype}", n, compute, store[100:], stride, n)
    straight = isa.scratch(f"strip_load_{dtype}", n, compute, store[at], 1, n)
    assert (picked == straight).all()
    if stride:
        out = np.zeros_like(store)
        isa.call(f"strip_store_{dtype}", out[100:], stride, picked, n)
        assert (out[at] == store[at]).all()
        out[at] = 0
        assert not out.any()
