"""Accuracy over samples of all float32 and float64 values, and special values against eager."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch

from benchmarks.ulp.samples import BINARY, EXACT, SPECIAL, TYPES, UNARY, edges, spread
from benchmarks.ulp.strips import Strips, measure, measure_all

# The largest distance allowed, in ulp, where it is not 1.5.
LIMIT = {
    ("f32", "sigmoid"): 2.2,
    ("f32", "expm1"): 1.8,
    ("f32", "rsqrt"): 1.6,
    ("f64", "sigmoid"): 2.5,
    ("f64", "lgamma"): 4,
    ("f64", "rsqrt"): 1.6,
    ("f64", "acosh"): 2.5,
    ("f64", "asinh"): 2,
}


def signed(dtype: str) -> np.ndarray:
    return np.array([*SPECIAL, *(-v for v in SPECIAL), np.nan], dtype=TYPES[dtype])


def eager(op: str) -> object:
    return getattr(torch.special if op == "erfinv" else torch, op)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", UNARY)
def test_unary(isa: Strips, op: str, dtype: str) -> None:
    x = spread(dtype, 60_000 if dtype == "f32" else 5_000)
    worst = measure(op, dtype, isa.map(op, dtype, x), x)
    limit = 0.501 if op in EXACT else LIMIT.get((dtype, op), 1.5)
    assert worst.wrong == 0, f"{op}({worst.wrong_at[0]!r})"
    assert worst.ulp <= limit, f"{op}({worst.at[0]!r}) is {worst.ulp:.2f} ulp off"


@pytest.mark.parametrize("op", UNARY)
def test_doubles_beside_eager(isa: Strips, op: str) -> None:
    """At most one ulp more than the worst of eager's."""
    x = spread("f64", 5_000)
    made = isa.map(op, "f64", x), eager(op)(torch.from_numpy(x)).numpy()
    own, peer = measure_all(op, "f64", made, x)
    assert own.ulp <= peer.ulp + 1, f"{op}({own.at[0]!r}) is {own.ulp:.2f} ulp off, eager {peer.ulp:.2f}"


@pytest.mark.parametrize(("dtype", "bits"), [("f32", 23.6), ("f64", 52)])
def test_phi_is_near_everywhere(isa: Strips, dtype: str, bits: float) -> None:
    """An absolute error: it is a factor beside 1 - phi."""
    x = np.concatenate([np.linspace(-9, 9, 90_001), [0.0, -0.0, np.inf, -np.inf, 1e-45, 3e38, -3e38]])
    x = x.astype(TYPES[dtype])
    got = isa.map("phi", dtype, x)
    exact = np.array([math.erfc(-v * math.sqrt(0.5)) / 2 for v in x.astype(np.float64)])
    assert np.abs(got - exact).max() <= 2.0**-bits
    assert np.isnan(isa.map("phi", dtype, np.array([np.nan], dtype=TYPES[dtype]))).all()


def test_lgamma_between_its_zeros(isa: Strips) -> None:
    """Left of -2 large terms cancel on both sides of every integer."""
    zeros = [-2.4570247382208006, -2.7476826467274127, -3.1435808883499798, -3.955294284858598]
    zeros += [-4.039361839740537, -4.991544640560048, -5.008218168322593, -5.998607480080875]
    far = 2.0 ** np.arange(-12, -3, 0.01)
    x = np.concatenate([z + side * np.abs(z - round(z)) * far for z in zeros for side in (1, -1)])
    worst = measure("lgamma", "f64", isa.map("lgamma", "f64", x), x)
    assert (worst.wrong, worst.ulp <= 150) == (0, True), (worst.at[0], worst.ulp)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", BINARY)
def test_binary(isa: Strips, op: str, dtype: str) -> None:
    x = spread(dtype, 10_000)
    x = x[np.isfinite(x) & (x != 0)]
    y = np.random.default_rng(3).permutation(x)
    worst = measure(op, dtype, isa.map(op, dtype, x, y), x, y)
    assert worst.wrong == 0, f"{op}({worst.wrong_at[0]!r}, {worst.wrong_at[1]!r})"
    assert worst.ulp <= 1.5, f"{op}({worst.at[0]!r}, {worst.at[1]!r}) is {worst.ulp:.2f} ulp off"


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_loghypot(isa: Strips, dtype: str) -> None:
    """On and beside the unit circle, where the logarithm has few of the squares' bits, and of any size."""
    rng, t = np.random.default_rng(5), TYPES[dtype]
    angle, size = rng.uniform(0, 7, 300), np.repeat([1, 1 + 1e-6, 1 - 1e-4, 1.3, 0.7, 5], 50)
    far = [rng.normal(size=(2, 60)), 2.0 ** rng.uniform(-120, 120, (2, 60))]
    a, b = np.hstack([size * np.stack([np.cos(angle), np.sin(angle)]), *far]).astype(t)
    made = isa.map("loghypot", dtype, a, b)
    with mpmath.workprec(300):
        for x, y, r in zip(a, b, made, strict=True):
            exact = mpmath.log(mpmath.hypot(float(x), float(y)))
            off = abs(mpmath.mpf(float(r)) - exact) / float(np.spacing(t(abs(exact))))
            assert off <= 1.5, f"loghypot({x!r}, {y!r}) is {float(off):.2f} ulp off"
    inf, nan = t(np.inf), t(np.nan)
    x, y = np.array([[0, -0.0], [inf, nan], [nan, -inf], [1, nan], [1, 0]], t).T.copy()
    np.testing.assert_array_equal(isa.map("loghypot", dtype, x, y), [-inf, inf, inf, nan, 0])


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_huge_angles(isa: Strips, op: str) -> None:
    """Floats next to multiples of pi / 2, found by their continued fractions, and huge ones."""
    hard = [
        16367173.0 * 2.0**72,
        3.1415927,
        1.5707964,
        12867964.0,
        8.0 * 2.0**100,
        3.4028234e38,
        1.1259e15,
        7.5557e22,
        5.0706e30,
        float.fromhex("0x1.ff0162p75"),
        float.fromhex("0x1.ffbe1ep75"),
    ]
    x = np.array(hard + [-h for h in hard], dtype=np.float32)
    worst = measure(op, "f32", isa.map(op, "f32", x), x)
    assert (worst.wrong, worst.ulp <= 1.5) == (0, True), (worst.at[0], worst.ulp)
    wide = np.array([6381956970095103.0 * 2.0**797, 1e22, 1e300, 2.0**1023, 5e15], dtype=np.float64)
    worst = measure(op, "f64", isa.map(op, "f64", wide[1:]), wide[1:])
    assert (worst.wrong, worst.ulp <= 2) == (0, True), (worst.at[0], worst.ulp)


@pytest.mark.in_turn(12)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_far_operands_change_no_others(isa: Strips, op: str, dtype: str) -> None:
    """A strip with a far operand computes all of them another way, and makes the same bits."""
    x = spread(dtype, 30_000)
    bound = (2**17, 2**26)[dtype == "f64"] * np.pi / 2
    beside = (np.linspace(-3, 3, 2001) * bound).astype(TYPES[dtype])  # and on both sides of the bound
    x = np.concatenate([x[np.isfinite(x)], beside])
    near = x[np.abs(x) < bound * 0.999]
    for far in (3e38, np.inf, np.nan):
        mixed = isa.map(op, dtype, np.append(near, TYPES[dtype](far)))
        assert (bits(mixed[:-1]) == bits(isa.map(op, dtype, near))).all()
    alone = [isa.map(op, dtype, v, scalars=1) for v in x[:, None]]
    assert (bits(np.concatenate(alone)) == bits(isa.map(op, dtype, x))).all()


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.itemsize}")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", [*UNARY, "sign"])
def test_special_unary(isa: Strips, op: str, dtype: str) -> None:
    x = signed(dtype)
    want = eager(op)(torch.from_numpy(x)).numpy()
    if op == "sigmoid":  # eager's becomes 0 early
        x, want = x[~(x < -87)], want[~(x < -87)]
    same_kind(isa.map(op, dtype, x), want, x)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    "op",
    [
        *BINARY,
        "remainder",
        "div_floor",
        "div_trunc",
        "copysign",
        "nextafter",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
    ],
)
def test_special_binary(isa: Strips, op: str, dtype: str) -> None:
    values = signed(dtype)
    x, y = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(values, values))
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    want = torch.div(a, b, rounding_mode=op[4:]) if op.startswith("div_") else getattr(torch, op)(a, b)
    if op in ("fmod", "remainder"):  # eager gives NaN where the quotient overflows
        x, y, want = (v[~(a.abs() / b.abs() > 1e38) | a.isinf() | (b == 0)] for v in (a, b, want))
        x, y = x.numpy(), y.numpy()
    same_kind(
        isa.map(op, dtype, x, y),
        want.numpy(),
        x,
        y,
        zeros=op not in ("maximum", "minimum", "fmax", "fmin", "remainder"),
    )


def same_kind(got: np.ndarray, want: np.ndarray, *at: np.ndarray, zeros: bool = True) -> None:
    """NaN where eager has NaN, the same infinities and signs of zero, and close elsewhere."""
    close = np.isclose(got, want, rtol=1e-6, atol=0, equal_nan=True)
    if zeros:
        close &= (np.signbit(got) == np.signbit(want)) | np.isnan(want)
    bad = np.flatnonzero(~close)
    assert bad.size == 0, [(*(float(v[k]) for v in at), float(got[k]), float(want[k])) for k in bad[:5]]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_predicates(isa: Strips, dtype: str) -> None:
    x = edges(dtype)
    t = torch.from_numpy(x)
    for op in ("isnan", "isinf", "signbit"):
        got = isa.map(op, dtype, x, out=np.uint8)
        assert (got == getattr(torch, op)(t).numpy()).all(), op


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_nextafter_bits(isa: Strips, dtype: str) -> None:
    x = spread(dtype, 2_000)
    y = np.random.default_rng(5).permutation(x)
    want = np.nextafter(x, y)
    got = isa.map("nextafter", dtype, x, y)
    assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_remainders_are_exact(isa: Strips, dtype: str) -> None:
    x = spread(dtype, 4_000)
    y = np.random.default_rng(9).permutation(x)
    with np.errstate(invalid="ignore"):
        want = np.fmod(x, y)
        floor = np.where((want != 0) & ((want < 0) != (y < 0)), want + y, want)
    assert np.array_equal(isa.map("fmod", dtype, x, y), want, equal_nan=True)
    assert np.array_equal(isa.map("remainder", dtype, x, y), floor, equal_nan=True)
