"""The item of a loop over an array that the loop changes, and steps that Python alone knows, in dlc.jit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlc import CaptureError, jit
from dlc.arrays.source import tree_of

Array = Any


def returns_an_item(x: Array) -> Array:
    for v in x:
        x += 1.0
        if v > 30.0:
            return v
    return -1.0


def last_item(x: Array) -> Array:
    s = 0.0
    for v in x:
        x += 1.0
        s += v
    return v, s


def last_of_reversed(x: Array) -> Array:
    s = 0.0
    for v in reversed(x):
        x += 1.0
        s += v
    return v * s


def item_of_a_row(x: Array) -> Array:
    for r in x.reshape(-1, 4):
        for v in r:
            r += 1
            if v > 5:
                return v
    return -1.0


def item_after_a_break(x: Array) -> Array:
    s, w = 0.0, 0.0
    for r in x.reshape(-1, 4):
        for w in r:
            r += 1.0
            if w > 20.0:
                break
        s += w
    return s


FUNCTIONS = (returns_an_item, last_item, last_of_reversed, item_of_a_row, item_after_a_break)


def same(fn: Callable[..., Any], x: Array) -> None:
    want, have = x.copy(), x.copy()
    expected, found = fn(want), jit(fn)(have)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (expected, found)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6)
    np.testing.assert_allclose(have, want, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [8, 20, 36])
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_an_item_is_what_the_array_had(fn: Callable[..., Any], n: int, dtype: Any) -> None:
    same(fn, np.arange(n, dtype=dtype))


def first_large(x: Array) -> Array:
    for k in range(100):
        if k * k > 50:
            break
    return x[:k] * 2


def axis_of_a_step(x: Array) -> Array:
    for k in range(40):
        if k == 5:
            break
        x[k] += k
    return x.reshape(4, -1).sum(axis=k - 4)


@pytest.mark.parametrize("fn", [first_large, axis_of_a_step], ids=lambda fn: fn.__name__)
def test_the_number_of_a_step_that_python_knows(fn: Callable[..., Any]) -> None:
    same(fn, np.arange(64.0))


def test_an_iterator_has_no_reversed_one() -> None:
    def function(x: Array) -> Array:
        s = 0.0
        for a, b in reversed(zip(x, x, strict=False)):  # type: ignore[call-overload]
            s += a * b
        return s

    with pytest.raises((TypeError, CaptureError), match=re.compile("reversible|reversed")):
        jit(function)(np.arange(20.0))


def test_a_body_of_any_length_has_its_source(tmp_path: Any) -> None:
    """Calls of a module's functions have another length where its import is seen, and so have jumps."""
    import importlib.util

    lines = [
        f"def f{k}(x, y):\n    for i in range(len(x) - 20):\n"
        + "        x[i] = np.sin(x[i + 1]) + np.cos(y[i])\n" * k
        + "        if x[i] > 1e9:\n            break\n    return x\n"
        for k in range(1, 40)
    ]
    path = tmp_path / "bodies_of_any_length.py"
    path.write_text("import numpy as np\n\n\n" + "\n\n".join(lines))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert [k for k in range(1, 40) if tree_of(getattr(module, f"f{k}")) is None] == []
