"""Torch guards that a size is even by `s == 2*(s // 2)` where halved and doubled parts meet the whole."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dlc.report import Graph, collect
from tests.tolerance import assert_like_eager


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_halved_doubled_and_joined(levels: int, compiler: Callable[..., Any]) -> None:
    def f(x: Tensor) -> Tensor:
        parts = [x]
        for _ in range(levels):
            parts.append(F.avg_pool1d(parts[-1], 2))
        y = parts.pop()
        while parts:
            y = torch.cat([F.interpolate(y, scale_factor=2.0), parts.pop()], 1)
        return y

    with collect() as reports:
        run = compiler(f, dynamic=True)
        for size in (24, 40):
            assert_like_eager(run, f, torch.randn(2, 3, size))
    assert [target for report in reports for target, _, _ in Graph.from_report(report).calls] == []
    with pytest.raises(Exception, match="must match"):
        run(torch.randn(2, 3, 25))
