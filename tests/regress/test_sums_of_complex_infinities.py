"""NumPy adds complex numbers by their parts; torch's sum multiplies one by a complex 1: so NaNs."""

from typing import Any

import numpy as np
import pytest

from tests.backend.jitted import jit

PARTS = (0.0, -0.0, 1.5, np.inf, -np.inf, np.nan)
Z = np.array([complex(x, y) for x in PARTS for y in PARTS])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_each_part_is_the_sum_of_the_parts(dtype: Any) -> None:
    def sums(x: Any, y: Any) -> Any:
        w = x.copy()
        w += y
        w[0] -= y[1, 0]
        return x + y, x - y, x + 1.5, 2 - x, x + (1 + 2j), np.subtract(3j, x), w

    x, y = Z[:, None].astype(dtype), Z[None].astype(dtype) + np.zeros((36, 1), dtype)
    x = x + np.zeros((1, 36), dtype)
    with np.errstate(invalid="ignore"):
        want = sums(x, y)
    for one, other in zip(jit(sums)(x, y), want, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one.real, other.real)
        np.testing.assert_array_equal(one.imag, other.imag)
