"""Slices that end at a value: of the step of a loop, or of an array."""

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlc import CaptureError
from dlc.arrays.value import MAX_STEPS
from tests.backend.jitted import jit

Array = Any
STEPS = MAX_STEPS + 30  # so many are only taken as a whole

#: One step of a loop over i; x, w: vectors of n; out: of n; m: (n, n), its rows to be read and written.
STATEMENTS = (
    "out[i] = x[:i].sum()", "out[i] = np.sum(x[i:])", "out[i] = x[1:i] @ w[1:i]",
"k = -i; out[i] = np.inner(x[k:], w[k:])",
    "k = i // 2; out[i] = np.vdot(x[k:i], w[k:i])", "out[i] = (x[:i] * 2 + w[:i]).sum()",
    "out[i] = np.sqrt(abs(x[i:])).sum() / 3", "x[:i] += 1", "x[i:] = 0.25", "x[2:i] -= w[2:i]",
    "x[i:n] *= w[i:n]", "t = x[:i] * 3; t += 1; out[i] = t.sum()", "row = x[:i]; row += w[:i]",
    "row = x[i:]; row -= 1; out[i] = row.sum()", "x[:i] = w[:i]", "x[i:] = -x[i:]", "x[:i] = w[0]",
    "x[i:] -= x[i]",
)  # fmt: skip
OF_MATRICES = (
    "out[i] = m[i, :i] @ m[0, :i]", "out[i] = m[:i, i] @ m[i, :i]", "m[i, i:] = 0", "m[:i, i] += m[i, :i]",
    "m[:i] *= 0.5", "m[i:, 0] = x[i:]", "m[i, :i] = x[:i] / 2",
)  # fmt: skip


def function(statement: str, *, loop: bool = True) -> Callable[..., Any]:
    scope: dict[str, Any] = {"np": np}
    steps = "    for i in range(n):\n        " if loop else "    i = np.argmax(w)\n    "
    body = statement.replace("; ", "\n        " if loop else "\n    ")
    text = f"def f(x, w, m, out):\n    n = len(x)\n{steps}{body}\n"
    name = f"<{statement}>"  # the source of a function is read for its loops
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), scope)
    scope["f"].__module__ = __name__
    return scope["f"]


def arguments(n: int, dtype: str, strided: bool) -> list[Array]:
    rng = np.random.default_rng(n)
    far = 2 if strided else 1

    def made(*shape: int) -> Array:
        values = rng.integers(-3, 4, shape) if dtype[0] == "i" else rng.standard_normal(shape)
        return values.astype(dtype)

    m = np.asfortranarray(made(n, n)) if strided else made(n, n)
    return [made(n * far)[::far], made(n * far)[::far], m, np.zeros(n, dtype)]


def check(f: Callable[..., Any], compiled: Callable[..., Any], given: list[Array]) -> None:
    want, got = [a.copy() for a in given], given
    f(*want)
    compiled(*got)
    for a, b in zip(want, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4 if a.dtype == np.float32 else 1e-9, atol=1e-4)


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("statement", STATEMENTS + OF_MATRICES)
def test_steps(statement: str, dtype: str) -> None:
    if dtype == "int64" and any(word in statement for word in ("/", "sqrt", ".25", "0.5")):
        pytest.skip("NumPy casts no floats to ints in place")
    f = function(statement)
    compiled = jit(f)
    for n, strided in ((40, False), (33, True), (2, False), (1, True)):
        check(f, compiled, arguments(n, dtype, strided))


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_they_are_taken_as_a_whole(statement: str) -> None:
    f = function(
        statement.replace("x[:i] += 1", "x[:i] *= 0.999").replace("x[i:n] *= w[i:n]", "x[i:n] += w[i:n]")
    )
    x, w, m, out = arguments(STEPS, "float64", False)
    check(f, jit(f), [x, w, m[:2, :2].copy(), out])


@pytest.mark.parametrize("statement", STATEMENTS + OF_MATRICES)
def test_of_a_value_of_an_array(statement: str) -> None:
    f = function(statement, loop=False)
    compiled = jit(f)
    for n in (7, 12, 1):
        check(f, compiled, arguments(n, "float64", False))


def test_what_is_outside_of_the_slice_has_no_part() -> None:
    def f(x: Array, w: Array, k: Array) -> tuple[Any, Any]:
        i = k.max()
        return x[:i] @ w[:i], x[i:].sum()

    x, w = np.array([1.0, 2.0, np.inf, np.nan]), np.array([3.0, 4.0, np.nan, 0.0])
    assert jit(f)(x, w, np.array([2]))[0] == 11
    assert jit(f)(x, w, np.array([-9]))[0] == 0
    assert jit(f)(x[::-1], w[::-1], np.array([2]))[1] == 3
    assert jit(f)(x[:2], w[:2], np.array([9]))[0] == 11


def stale(x: Array, k: Array) -> Any:
    row = x[: k.max()]
    x[0] = 7.0
    return row.sum()  # here: of NumPy's view, which has the new element


def within(x: Array, k: Array) -> Any:
    row, s = x[: k.max()], 0.0
    for i in range(len(k)):
        s += row.sum() * k[i]
    return s


def returned(x: Array, k: Array) -> Any:
    return x[: k.max()]


def its_mean(x: Array, k: Array) -> Any:
    return x[: k.max()].mean()


def two(x: Array, k: Array) -> Any:
    return (x[: k.max()] + x[: k.min()]).sum()


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (stale, "after a write to its array.*slice it again"),
        (within, "within a loop or a branch.*slice it there"),
        (returned, "it returns a slice that ends at a value.*return the whole array"),
        (its_mean, "a slice ends at a value of an array"),
        (two, "a slice ends at a value of an array"),
    ],
)
def test_refused_with_the_line(f: Callable[..., Any], message: str) -> None:
    with pytest.raises(CaptureError, match=message) as raised:
        jit(f)(np.arange(6.0), np.arange(1, 1 + MAX_STEPS * 2) % 4)
    assert "test_jit_slices.py:" in str(raised.value) or f is returned


def test_a_slice_that_is_computed_with_is_a_copy() -> None:
    def f(x: Array, k: Array) -> Any:
        t = x[: k.max()] * 2
        x[0] = 7.0
        t += 1
        return t.sum()

    a, b = np.arange(6.0), np.arange(6.0)
    assert jit(f)(a, np.array([3])) == f(b, np.array([3]))
    np.testing.assert_array_equal(a, b)


def test_cholesky() -> None:
    def f(a: Array) -> None:
        a[0, 0] = np.sqrt(a[0, 0])
        for i in range(1, a.shape[0]):
            for j in range(i):
                a[i, j] -= np.dot(a[i, :j], a[j, :j])
                a[i, j] /= a[j, j]
            a[i, i] -= np.dot(a[i, :i], a[i, :i])
            a[i, i] = np.sqrt(a[i, i])

    fast = jit(f)
    for n in (60, 17, 1):
        m = np.random.default_rng(n).random((n, n))
        a = m @ m.T + n * np.eye(n)
        got = a.copy()
        fast(got)
        np.testing.assert_allclose(np.tril(got), np.linalg.cholesky(a))
