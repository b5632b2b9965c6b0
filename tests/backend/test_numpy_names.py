"""The tables of docs/numpy_functions.md have every public function of NumPy's, and say what is so."""

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlc
from dlc.arrays.names import FUNCTIONS, OTHERWISE
from tests.backend.jitted import jit
from tests.backend.numpy_names import INSTEAD, PAGE, functions, page, rows

X = np.arange(1.0, 5.0).reshape(2, 2)


def test_every_function_is_in_a_table() -> None:
    assert not [row.name for row in rows() if not row.kind]


@pytest.mark.skipif(not np.__version__.startswith("2.4."), reason="needs NumPy 2.4, whose names the page has")
def test_the_page_is_what_the_program_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.backend.numpy_names writes it"


def test_nothing_is_in_two_tables() -> None:
    """eig and eigvals are called with complex numbers."""
    refused = [word for words, _ in INSTEAD.values() for word in words.split()]
    assert len(refused) == len(set(refused))
    known = {name for name, function in functions() if function in FUNCTIONS or function in OTHERWISE}
    assert known & set(refused) == {"linalg.eig", "linalg.eigvals"}


def _of_one(function: Any, count: int) -> Callable[[Any], Any]:
    return lambda x: function(*(x,) * count)


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("name", [row.name for row in rows() if row.kind == "refused"])
def test_what_is_refused_is_refused(name: str) -> None:
    """With some of these arguments: none is taken, and one at least is what NumPy takes."""
    function = dict(functions())[name]
    taken = 0
    for args in ((X,), (X, X), (X[0],), (X[0], X[0])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(Exception):
                function(*args)
                taken += 1
            with pytest.raises((dlc.CaptureError, TypeError, ValueError)):
                jit(_of_one(function, len(args)), constants=True)(args[0])
    assert taken or name in ("apply_along_axis", "apply_over_axes", "linalg.tensorsolve")
