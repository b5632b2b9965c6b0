"""What a step of a loop stores in an array that the loop carries: what the program writes, and no copy.

The programs are NumPy's. a and x have the shape [A, B] of float64, at least 17 each: shorter loops are
unrolled. traffic.py says how bytes are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import dlc
from tests.structure.traffic import dim, traffic

Array = Any


def moving_average(a: Array, x: Array) -> None:
    for i in range(1, len(a)):
        a[i] = a[i - 1] * 0.5 + x[i]


def from_elsewhere(a: Array, x: Array) -> None:
    """Every element of the row needs another column of the one before: the row is made first."""
    for i in range(1, len(a)):
        a[i] = a[i - 1, 0] + x[i]


def element(a: Array, x: Array) -> None:
    for i in range(1, len(a)):
        a[i, 3] = a[i - 1, 2] + a[i, 3] * x[0, 0]


def added(a: Array, x: Array) -> None:
    for i in range(len(a)):
        a[i, 1] += x[i, 1] * a[0, 0]


def nested(a: Array, x: Array) -> None:
    for i in range(1, len(a)):
        for j in range(1, 20):
            a[i, j] = a[i - 1, j] + a[i, j - 1]


def row_where(a: Array, x: Array) -> None:
    for i in range(1, len(a)):
        if x[i, 0] > 0.5:
            a[i] = a[i - 1] + 1


def element_where(a: Array, x: Array) -> None:
    for i in range(1, len(a)):
        if x[i, 0] > 0.5:
            a[i, 2] = a[i - 1, 2] + 1


def two(a: Array, x: Array) -> None:
    for i in range(1, len(a)):
        a[i, 0] = a[i - 1, 0] + x[i, 0]
        a[i, 1] = a[i - 1, 1] * x[i, 1] + a[i, 0]


def until(a: Array, x: Array) -> None:
    i = 1
    while i < 20 and a[i - 1, 0] < 100:
        a[i, 0] = a[i - 1, 0] + x[i, 0]
        i += 1


def average(a: Array, x: Array) -> None:
    for i in range(1, len(a)):
        a[i] = a[i - 1] * 0.5 + x[i]


def triangle(a: Array, x: Array) -> None:
    for i in range(len(a)):
        for j in range(i + 1, len(a)):
            a[i, j] -= a[i, i] * x[j, i]


def backwards(a: Array, x: Array) -> None:
    for i in range(len(a) - 1, -1, -1):
        for j in range(20, i, -2):
            a[j, 1] += a[i, 0] * x[i, j]
            for k in range(j, 23):
                a[k, 2] -= a[j, 1]


def eliminated(a: Array, x: Array) -> None:
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= 2 + a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


#: By program: the kernels of the function, if it has some, and of each body, and the bytes that they store.
#: The bools and scalars of conditions count nothing.
STORED: dict[Callable[[Array, Array], None], list[tuple[int, str]]] = {
    moving_average: [(1, "8*B")],
    from_elsewhere: [(2, "16*B")],
    row_where: [(1, "0"), (1, "8*B"), (1, "0")],
    element_where: [(1, "8*A*B"), (1, "0"), (1, "8"), (1, "0")],
    until: [(3, "8*A*B"), (1, "0"), (1, "0"), (2, "8")],
}

#: Loops that become kernels, and the loops marked steps in them.
IN_KERNELS = {element: 1, added: 1, two: 1, nested: 2, average: 1, triangle: 2, backwards: 3, eliminated: 3}


def bodies(text: str) -> list[str]:
    """The kernels of the function and of each body, without stores that change nothing."""
    loops = r"(dlc 1 loops.*?^\}\n)"
    parts = re.findall(rf"^-- lower\n{loops}-- idle[^\n]*\n{loops}?", text, re.MULTILINE | re.DOTALL)
    return list(dict.fromkeys(after or before for before, after in parts))


@pytest.mark.parametrize("fn", STORED, ids=lambda fn: fn.__name__)
def test_a_step_stores_what_is_written(fn: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    a, x = rng.random((24, 30)), rng.random((24, 30))
    expected = a.copy()
    fn(expected, x)
    capfd.readouterr()
    dlc.jit(fn, tier="tcc", cache=False, dump="lower,idle,plan", verify=True)(a, x)
    text = capfd.readouterr().err
    np.testing.assert_allclose(a, expected)
    found = [traffic([part]) for part in bodies(text)]
    assert [(t.kernels, t.stored) for t in found] == [(n, sympy.expand(dim(b))) for n, b in STORED[fn]]
    *steps, _ = text.split("/* plan */\n")[1:]  # that of the function is the last one
    assert steps
    assert not re.search(r"^  copy ", "".join(steps), re.MULTILINE)


@pytest.mark.parametrize("fn", IN_KERNELS, ids=lambda fn: fn.__name__)
def test_a_loop_of_elements_is_one_launch(fn: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    """However many steps it has: one phase of a kernel. The others copy the argument."""
    rng = np.random.default_rng(0)
    shape = (10_000,) if fn is average else (24, 30)
    a, x = rng.random(shape), rng.random(shape)
    expected = a.copy()
    fn(expected, x)
    capfd.readouterr()
    dlc.jit(fn, tier="tcc", cache=False, dump="lower,idle,plan", verify=True)(a, x)
    text = capfd.readouterr().err
    np.testing.assert_array_equal(a, expected)
    (loops,) = bodies(text)
    assert len(re.findall(r"^    for .* steps \{$", loops, re.MULTILINE)) == 1
    assert loops.count(" steps {") == IN_KERNELS[fn]
    (plan,) = text.split("/* plan */\n")[1:]
    assert not re.search(r"^  loop ", plan, re.MULTILINE)
    assert len(re.findall(r"^  launch .* in order$", plan, re.MULTILINE)) == 1


def test_axes_as_long_as_a_range_need_no_check(capfd: pytest.CaptureFixture[str]) -> None:
    """In other calls they are not so long: another variant checks, and both have NumPy's numbers."""
    fast, rng = (
        dlc.jit(eliminated, tier="tcc", cache=False, dump="lower", verify=True),
        np.random.default_rng(0),
    )
    for shape, checked in ((24, 24), False), ((31, 31), None), ((24, 30), True), ((31, 31), None):
        a, x = rng.random(shape), np.ones(1)
        expected = a.copy()
        eliminated(expected, x)
        capfd.readouterr()
        fast(a, x)
        np.testing.assert_array_equal(a, expected)
        text = capfd.readouterr().err
        assert bool(text) == (checked is not None)
        assert (" = bind " in text) == bool(checked)
    with pytest.raises(IndexError):
        fast(np.ones((31, 24)), np.ones(1))
