"""A reversed axis of one element has a negative stride, which is never used: torch refused it."""

from collections.abc import Callable

import numpy as np
import pytest

import dlc

FUNCTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "product": lambda x, y: x @ y,
    "sum": lambda x, y: x.sum() + y,
    "both": lambda x, y: np.concatenate([x, x @ y[:, : x.shape[1]]]),
}


@pytest.mark.parametrize("shape", [(1, 16), (16, 1), (1, 1), (3, 16)])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("plain", [False, True], ids=["", "after plain arrays"])
def test_it_is_read_where_it_is(name: str, plain: bool, shape: tuple[int, int]) -> None:
    function = FUNCTIONS[name]
    compiled = dlc.jit(function)
    rows, columns = np.arange(48.0), np.arange(float(shape[1] * 16)).reshape(shape[1], 16)
    if plain:
        compiled(np.ones(shape), columns)
    for reverse in (np.s_[::-1], np.s_[:, ::-1], np.s_[::-1, ::-1]):
        x, y = rows[: shape[0] * shape[1]].reshape(shape).copy()[reverse], columns[reverse]
        np.testing.assert_allclose(compiled(x, y), function(x, y))
