"""y[m] *= 2, y[m] = v[m] and y[i] = v were refused: an array written to places "may name a place twice"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlc


def scaled(y: Any, m: Any, v: Any) -> Any:
    y = y + 1
    y[m] *= 2
    return y


def taken(y: Any, m: Any, v: Any) -> Any:
    y = y + 1
    y[m] = v[m]
    return y


def computed(y: Any, m: Any, v: Any) -> Any:
    y = y.copy()
    y[m] = np.exp(-v[m]) + y[m] * 0.5
    y[~m] -= 1
    return y


def of_itself(y: Any, m: Any, v: Any) -> Any:
    y = y * 2
    y[y > 1] /= 3
    m = y > 0.25
    y[m] += y[m] * 4
    return y


def chosen_before_a_write(y: Any, m: Any, v: Any) -> Any:
    y = y + 0
    before = y[m]
    y[m] = 7
    y[m] = before * 2
    return y


def of_a_mask_that_changes(y: Any, m: Any, v: Any) -> Any:
    y, m = y + 0, m.copy()
    before = v[m]
    m[:] = m[::-1].copy()
    m[:] = m[::-1].copy()
    y[m] = before
    return y


def changed_in_place(y: Any, m: Any, v: Any) -> Any:
    part = v[m]
    also = part
    part *= 3
    y = y + 0
    y[m] = also
    return y


def counted(y: Any, m: Any, v: Any) -> Any:
    part = y[m]
    part += 1
    return part.sum() + len(part)


def of_whole_numbers(y: Any, m: Any, v: Any) -> Any:
    y = (y * 8).astype(np.int32)
    y[m] //= 3
    y[m] = v[m]
    return y


FUNCTIONS = [
    scaled, taken, computed, of_itself, chosen_before_a_write, of_a_mask_that_changes, changed_in_place,
    counted, of_whole_numbers,
]  # fmt: skip


def assert_numpys(f: Callable[..., Any], *args: Any) -> None:
    """For several sizes of the first axis, by both compilers."""
    for tier in ("tcc", "gcc"):
        jitted = dlc.jit(f, tier=tier)
        for n in (args[0].shape[0], 5, 1):
            given = [a[:n] for a in args]
            have, want = jitted(*given), f(*given)
            np.testing.assert_allclose(have, want, rtol=1e-6)
            assert have.dtype == want.dtype


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_axis(f: Callable[..., Any]) -> None:
    random = np.random.default_rng(0)
    y, v = random.standard_normal((2, 37)).astype(np.float32)
    assert_numpys(f, y, v > 0.3, v)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_two_axes(f: Callable[..., Any]) -> None:
    random = np.random.default_rng(1)
    y, v = random.standard_normal((2, 9, 4))
    assert_numpys(f, y, v > 0, v)
    if f is not of_itself:
        assert_numpys(f, y, v[:, 0] > 0, v)


def test_a_row_for_each_place() -> None:
    def f(y: Any, m: Any, row: Any) -> Any:
        y = y + 0
        y[m] = row
        y[m, :] = y[m, :] + row
        return y

    y = np.arange(12.0).reshape(4, 3)
    m, row = np.array([True, False, True, True]), np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(dlc.jit(f)(y, m, row), f(y, m, row))


def test_as_many_values_as_places() -> None:
    def f(y: Any, m: Any, values: Any) -> Any:
        y = y + 0
        y[m] = values
        return y

    y, m = np.arange(5.0), np.array([True, False, True, False, True])
    np.testing.assert_array_equal(dlc.jit(f)(y, m, np.array([7.0, 8, 9])), [7, 1, 8, 3, 9])


@pytest.mark.parametrize(
    "f", [scaled, taken, computed, of_itself, changed_in_place], ids=lambda f: f.__name__
)
def test_it_is_a_select(f: Callable[..., Any]) -> None:
    """One kernel or few, and no call of an operator."""
    before = dlc.counters()
    y = np.arange(5.0)
    dlc.jit(f)(y, y > 2, y)
    after = dlc.counters()
    assert after["eager_calls"] == before["eager_calls"]
    assert after["kernels"] - before["kernels"] == 1


def test_indices_may_name_a_place_twice() -> None:
    def f(y: Any, i: Any, v: Any) -> Any:
        y = y + 0
        y[i] = v
        return y

    for i in ([0, 0], [2, -1], [1, 2]):
        given = np.arange(3.0), np.array(i), np.arange(5.0, 7.0)
        np.testing.assert_array_equal(dlc.jit(f)(*given), f(*given))
