"""Whole numbers between two: eager cuts the ends off first, and again in the middle."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor


@pytest.mark.parametrize(("start", "end"), [(4.3, -3), (0, 7), (-2.7, 50.9)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_whole_numbers(compiler: Callable[..., Any], start: float, end: float, dtype: torch.dtype) -> None:
    def f(x: Tensor) -> Tensor:
        return torch.linspace(start, end, 50, dtype=dtype) + x

    x = torch.arange(50, dtype=dtype)
    assert torch.equal(compiler(f)(x), f(x))
