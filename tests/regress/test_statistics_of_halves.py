"""An operator whose result has another floating dtype than torch's rule says: it was refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_same_bits


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_running_statistics(dtype: torch.dtype, compiler: Callable[..., Any]) -> None:
    def function(x: Tensor, weight: Tensor, mean: Tensor, var: Tensor) -> tuple[Tensor, ...]:
        return torch.ops.aten._batch_norm_with_update(x, weight, None, mean, var, 0.5, 1e-5)

    def results(f: Callable[..., Any]) -> list[Tensor]:
        x = torch.randn(6, 3, generator=torch.Generator().manual_seed(1)).to(dtype)
        mean, var = torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)
        return [*f(x, torch.ones(3, dtype=dtype), mean, var)[:3], mean, var]

    with torch.no_grad():
        for mine, theirs in zip(results(compiler(function)), results(function), strict=True):
            assert_same_bits(mine, theirs)
