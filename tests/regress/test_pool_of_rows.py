"""max_pool1d without gradients makes rows in eager, however its operand lies: dlc.jit's trace is told."""

import torch
import torch.nn.functional as F
from torch import Tensor

import dlc


def pool(x: Tensor) -> Tensor:
    return F.max_pool1d(x, 3, 2)


def pool_by_torch(x: Tensor) -> Tensor:
    return torch.max_pool1d(x, 3, 2, ceil_mode=True)


def test_results_are_rows() -> None:
    x = torch.randn(2, 9, 3).transpose(1, 2)
    for fn in pool, pool_by_torch:
        torch.testing.assert_close(dlc.jit(fn)(x), fn(x), rtol=0, atol=0, check_stride=True)
