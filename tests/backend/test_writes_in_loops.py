"""Loops that write to parts of the arrays that they carry against NumPy: what they leave there.

What a step stores is tests/structure/test_writes_in_loops.py's.
"""

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlc import CaptureError
from tests.backend.jitted import jit
from tests.backend.random_writes_in_loops import Loops, arguments

Array = Any


def function(text: str, seed: int) -> Callable[..., Any]:
    """The function of this text, whose lines dlc can read."""
    file, names = f"<random loop {seed}>", {"np": np}
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return names["program"]


def check(fn: Callable[..., Any], *make: Any, **options: Any) -> None:
    """Two calls; arguments are compared too.  make: the arguments, of which each call has copies."""
    fast = jit(fn, **options)
    for _ in range(2):
        ours, theirs = copies(make), copies(make)
        got, want = fast(*ours), fn(*theirs)
        for mine, other in zip((*ours, got), (*theirs, want), strict=True):
            if other is not None:
                np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)
                assert np.asarray(mine).dtype == np.asarray(other).dtype


def copies(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(v.copy() if isinstance(v, np.ndarray) else v for v in values)


@pytest.mark.parametrize("tier", ["tcc", pytest.param("gcc", marks=pytest.mark.in_turn(6))])
@pytest.mark.parametrize("seed", range(10))
def test_random_loops(seed: int, tier: str) -> None:
    text, dtype = Loops(seed).text, ("float64", "float32")[seed % 2]
    try:
        check(function(text, seed), *arguments(seed, dtype), tier=tier, verify=True)
    except Exception as error:
        raise AssertionError(text) from error


def recurrence(x: Array, y: Array) -> None:
    for i in range(1, len(x)):
        x[i] = y[i] + x[i - 1]


def backwards(x: Array, y: Array) -> None:
    for i in range(len(x) - 2, -1, -1):
        x[i] = y[-i - 1] + x[i + 1]


def looked_up(x: Array, y: Array, at: Array) -> None:
    for i in range(len(x)):
        x[at[i]] = x[at[-i]] + y[i]


DTYPES = [
    "float64",
    "float32",
    "float16",
    "complex128",
    "complex64",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
]


@pytest.mark.parametrize("tier", ["tcc", pytest.param("gcc", marks=pytest.mark.in_turn(6))])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(30,), (30, 5)], ids=str)
def test_every_dtype(shape: tuple[int, ...], dtype: str, tier: str) -> None:
    x, y = ((np.random.default_rng(k).standard_normal(shape) * 5).astype(np.int8) for k in range(2))
    for fn in (recurrence, backwards):
        check(fn, x.astype(dtype), y.astype(dtype), tier=tier)


def test_positions_from_data() -> None:
    rng = np.random.default_rng(0)
    for shape in ((30,), (30, 5)):
        check(looked_up, rng.random(shape), rng.random(shape), rng.integers(-30, 30, 30))


@pytest.mark.parametrize("n", [0, 1, 2, 17])
def test_few_steps(n: int) -> None:
    """Compiled for many, and called with few."""
    fast = jit(recurrence)
    for k in (40, n, 41):
        x, y = np.random.default_rng(k).random((2, k))
        want = x.copy()
        recurrence(want, y)
        fast(x, y)
        np.testing.assert_allclose(x, want)


@pytest.mark.parametrize("other", [slice(None, -1), slice(1, None), slice(None, None, -1)], ids=str)
def test_arguments_that_overlap(other: slice) -> None:
    """Both arguments are parts of one array: refused, and nothing is written."""
    x, before = (np.random.default_rng(2).random(40) for _ in range(2))
    part = slice(1, None) if other.step is None else other
    with pytest.raises(CaptureError, match="shares memory with y: give it a copy"):
        jit(recurrence)(x[part], x[other])
    np.testing.assert_array_equal(x, before)


def test_strided_arguments() -> None:
    ours, theirs = (np.random.default_rng(3).random((40, 6)) for _ in range(2))
    fast = jit(recurrence)
    fast(ours[::2, 1::2], ours[1::2, ::2])
    recurrence(theirs[::2, 1::2], theirs[1::2, ::2])
    np.testing.assert_allclose(ours, theirs)


def view_returned(x: Array) -> Array:
    """The view shows what is written after it was taken."""
    row = x[3:5]
    for i in range(1, len(x)):
        x[i, 0] = x[i - 1, 0] + 1
    return row


def kept(x: Array) -> tuple[Array, Array]:
    """What was there is needed later."""
    old = x.copy()
    for i in range(1, len(x)):
        x[i] = x[i - 1] + old[i]
    return old, old[::-1] + x


def both_rows(x: Array) -> None:
    for i in range(1, len(x)):
        t = x[i].copy()
        x[i] = x[i - 1]
        x[i - 1] = t


@pytest.mark.parametrize("fn", [view_returned, both_rows], ids=lambda fn: fn.__name__)
def test_views(fn: Callable[..., Any]) -> None:
    check(fn, np.random.default_rng(4).random((30, 4)))


def test_old_values() -> None:
    x = np.random.default_rng(4).random((30, 4))
    want = kept(theirs := x.copy())
    got = jit(kept)(x)
    np.testing.assert_allclose([x, *got], [theirs, *want])


def too_far(x: Array, n: int) -> None:
    for i in range(n):
        x[i + 1] = x[i] + 1


def test_an_index_out_of_range() -> None:
    fast = jit(too_far)
    x = np.zeros(40)
    fast(x, 39)
    np.testing.assert_array_equal(x, np.arange(40.0))
    with pytest.raises(IndexError):
        fast(x, 40)
