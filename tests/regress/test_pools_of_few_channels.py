"""Pools of images whose channels are innermost and few."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dlc.report import collect

Compiler = Callable[..., Any]
POOLS: dict[str, Callable[[Tensor], Any]] = {
    "max": lambda x: F.max_pool2d(x.relu(), 3, 2, 1),
    "where": lambda x: F.max_pool2d(x, (3, 2), 2, 1, ceil_mode=True, return_indices=True),
    "holes": lambda x: F.max_pool2d(x, 3, 1, 1, dilation=(1, 2), return_indices=True),
    "mean": lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False, ceil_mode=True),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("shape", [(2, 3, 13, 10), (1, 8, 20, 31), (2, 2, 3, 6)])
def test_few_channels_innermost(compiler: Compiler, name: str, shape: tuple[int, ...]) -> None:
    """A padded pool of such an image was a call, six times as long for three channels."""
    numbers = torch.randint(-9, 9, shape, generator=torch.Generator().manual_seed(0))
    x = numbers.to(torch.float32, memory_format=torch.channels_last)
    with collect() as reports:
        made = compiler(POOLS[name], dynamic=False, options={"strict": True})(x)
    assert not any(report.get("calls") for report in reports)
    wanted = POOLS[name](x)
    pairs = zip(made, wanted, strict=True) if isinstance(made, tuple) else [(made, wanted)]
    for a, b in pairs:
        assert torch.equal(a, b)
        assert a.stride() == b.stride()
