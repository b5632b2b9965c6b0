"""dlc.jit makes each view of an array once: x[0, 1:] and x[1:] are not the same one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.jitted import jit

X = np.arange(30.0).reshape(5, 6)


def first(x: Any) -> Any:
    return x[0, 1:] * 2.0, x[1:] * 3.0


def second(x: Any) -> Any:
    return x[:, 2:5] * 2.0, x[1, 2:5] * 3.0


@pytest.mark.parametrize("function", [first, second])
def test_a_number_is_no_axis(function: Any) -> None:
    for have, want in zip(jit(function)(X), function(X), strict=True):
        np.testing.assert_array_equal(have, want)
