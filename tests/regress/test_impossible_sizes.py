"""Sizes of which no memory can have a tensor: eager's error, where a result had more than 2**63 bytes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor


def _repeated(x: Tensor, n: int, m: int) -> Tensor:
    return x.expand(n, m) + 1


def _summed(x: Tensor, n: int, m: int) -> Tensor:
    return torch.sin(torch.flip(x.expand(n, m) + 1, (0,))).sum(0)


@pytest.mark.parametrize("function", [_repeated, _summed])
@pytest.mark.parametrize("n, m", [(2**19, 2**43 + 1), (2**31, 2**31), (2**62, 4), (2**40, 2**20 + 1)])
def test_impossible_sizes(
    compiler: Callable[..., Any], function: Callable[..., Tensor], n: int, m: int
) -> None:
    compiled, x = compiler(function, dynamic=True), torch.ones(1)
    for sizes in (5, 7), (6, 9):
        torch.testing.assert_close(compiled(x, *sizes), function(x, *sizes))
    with pytest.raises(RuntimeError):
        function(x, n, m)
    with pytest.raises(RuntimeError):
        compiled(x, n, m)
