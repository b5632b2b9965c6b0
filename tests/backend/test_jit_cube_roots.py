"""np.cbrt under dlc.jit against exact roots."""

from typing import Any

import mpmath
import numpy as np
import pytest

from tests.backend.jitted import jit

BITS = {np.float64: np.int64, np.float32: np.int32, np.float16: np.int16}
#: In units of the last place.
LIMITS = {np.float64: 0.667, np.float32: 0.501, np.float16: 0.501}


def root(x: Any) -> Any:
    return np.cbrt(x)


def numbers(dtype: Any) -> Any:
    """Of every exponent, and those with a form of their own."""
    bits, most = BITS[dtype], np.array(np.inf, dtype).view(BITS[dtype])
    rng = np.random.default_rng(3)
    anywhere = rng.integers(1, most, 3000).astype(bits).view(dtype)
    limits = np.finfo(dtype)
    ends = np.array([limits.tiny, limits.max, limits.smallest_subnormal, limits.tiny / 2, 8, 27, 1], dtype)
    cubes = np.arange(1, 30, dtype=dtype) ** 3
    some = np.concatenate([anywhere, np.linspace(0.1, 9, 500).astype(dtype), ends, cubes])
    return np.concatenate([some, -some])


def ulps(x: Any, found: Any) -> float:
    with mpmath.workprec(200):
        exact = [mpmath.sign(float(a)) * mpmath.cbrt(abs(mpmath.mpf(float(a)))) for a in x]
        units = np.spacing(np.abs(found)).astype(np.float64)
        return max(
            float(abs(mpmath.mpf(float(b)) - e) / mpmath.mpf(float(u)))
            for b, e, u in zip(found, exact, units, strict=True)
        )


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("dtype", BITS)
def test_within_a_unit_of_the_last_place(dtype: Any, tier: str) -> None:
    x, fast = numbers(dtype), jit(root, tier=tier)
    found = fast(x)
    assert found.dtype == dtype
    assert ulps(x, found) < LIMITS[dtype]
    np.testing.assert_array_equal(fast(x[::-3]), found[::-3])


@pytest.mark.parametrize("dtype", BITS)
def test_zeros_infinities_and_nan(dtype: Any) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)
    found = jit(root)(x)
    np.testing.assert_array_equal(found, np.cbrt(x))
    np.testing.assert_array_equal(np.signbit(found)[:4], np.signbit(x)[:4])


def test_whole_numbers_become_floats() -> None:
    for x in (np.arange(-30, 30), np.arange(9, dtype=np.uint8), np.int64(27)):
        found, expected = jit(root)(x), np.cbrt(x)
        assert type(found) is type(expected) and np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=1e-3 if expected.dtype == np.float16 else 1e-7)
