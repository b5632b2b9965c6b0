"""hypot compared with a constant is a comparison of squares: the bits of the comparison stay."""

from typing import Any

import numpy as np
import pytest

from tests.backend.jitted import jit


def near(c: float) -> tuple[Any, Any]:
    """Points whose length is c or a few units of the last place beside it, and some far away."""
    rng = np.random.default_rng(5)
    angle = rng.uniform(0, 2 * np.pi, 20_000)
    length = c * (1 + rng.integers(-3, 4, angle.shape) * 1.1e-16)
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-320, 1e-200, 1e-160, 1e160, 1e200, 1.7e308, c])
    first, second = (a.ravel() for a in np.meshgrid(edges, edges))
    return np.concatenate([length * np.cos(angle), first]), np.concatenate([length * np.sin(angle), second])


@pytest.mark.parametrize("c", [2.0, 2, 0.7, 1 / 3, 1e100, 1e-100, 1e-200, -1.0, 0.0, float("inf"), 1e200])
def test_the_same_bits(c: float) -> None:
    def compare(x: Any, y: Any) -> Any:
        z = x + 1j * y
        return np.hypot(x, y) < c, np.hypot(x, y) <= c, np.abs(z) < c, np.hypot(x, y)

    x, y = near(abs(c) if np.isfinite(c) and c else 1.0)
    less, most, shorter, length = jit(compare)(x, y)
    np.testing.assert_array_equal(less, length < c)
    np.testing.assert_array_equal(most, length <= c)
    with np.errstate(invalid="ignore"):
        z = x + 1j * y
    finite = np.isfinite(z.real) & np.isfinite(z.imag)
    np.testing.assert_array_equal(shorter[finite], less[finite])
    assert 0 < less.sum() < less.size or c <= 1e-200 or c == float("inf")
