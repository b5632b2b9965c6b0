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


#: By program: the kernels of each body and the bytes that they store. The bools and scalars of conditions
#: count nothing.
STORED: dict[Callable[[Array, Array], None], list[tuple[int, str]]] = {
    moving_average: [(1, "8*B")],
    from_elsewhere: [(2, "16*B")],
    element: [(1, "8")],
    added: [(1, "8")],
    nested: [(1, "8*19"), (1, "8")],
    row_where: [(1, "0"), (1, "8*B"), (1, "0")],
    element_where: [(1, "0"), (1, "8"), (1, "0")],
    two: [(3, "6*8")],
    until: [(1, "0"), (1, "0"), (2, "8")],
}


def bodies(text: str) -> list[str]:
    """The kernels of each body; those of the function are compiled first."""
    parts = re.findall(r"^-- lower\n(dlc 1 loops.*?^\}\n)", text, re.MULTILINE | re.DOTALL)
    return list(dict.fromkeys(parts[1:]))


@pytest.mark.parametrize("fn", STORED, ids=lambda fn: fn.__name__)
def test_a_step_stores_what_is_written(fn: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    a, x = rng.random((24, 30)), rng.random((24, 30))
    expected = a.copy()
    fn(expected, x)
    capfd.readouterr()
    dlc.jit(fn, tier="tcc", cache=False, dump="lower,plan", verify=True)(a, x)
    text = capfd.readouterr().err
    np.testing.assert_allclose(a, expected)
    found = [traffic([part]) for part in bodies(text)]
    assert [(t.kernels, t.stored) for t in found] == [(n, sympy.expand(dim(b))) for n, b in STORED[fn]]
    *steps, _ = text.split("/* plan */\n")[1:]  # that of the function is the last one
    assert steps
    assert not re.search(r"^  copy ", "".join(steps), re.MULTILINE)
