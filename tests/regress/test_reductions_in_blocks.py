"""A sum that is cut in blocks, of what an index reduction over the same rows has found."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_same_bits


def rows(x: Tensor) -> Tensor:
    """A value is shared and dear, so that it was to be kept for a row that no loop was for."""
    e = x.exp()
    return torch.where(torch.arange(x.shape[-1]) == e.argmax(-1, keepdim=True), 0.0, e).sum(-1)


def columns(x: Tensor) -> Tensor:
    e = x.exp()
    return torch.where(torch.arange(x.shape[0])[:, None] == e.argmax(0), 0.0, e).sum(0)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize(
    ("function", "shape"),
    [(rows, (20000,)), (rows, (4, 32000)), (columns, (1024, 8))],
    ids=["row", "rows", "columns"],
)
def test_all_but_the_greatest(
    function: Callable[[Tensor], Tensor], shape: tuple[int, ...], tier: str, compiler: Callable[..., Any]
) -> None:
    x = torch.randn(shape)
    torch.testing.assert_close(compiler(function, options={"tier": tier})(x), function(x))


def test_the_index_is_found_once(compiler: Callable[..., Any], capfd: pytest.CaptureFixture[str]) -> None:
    """Not anew in each block."""

    def fn(x: Tensor) -> Tensor:
        return torch.where(torch.arange(x.shape[0]) == x.argmax(), 0.0, x).sum()

    x = torch.randint(-8, 8, (1 << 20,)).float()  # any order of summing them is exact
    x[12345] = 9.0
    assert_same_bits(compiler(fn, options={"dump": "loops"})(x), fn(x))
    loops = capfd.readouterr().err
    assert 0 < loops.index("reduce argmax") < loops.index("for block")
