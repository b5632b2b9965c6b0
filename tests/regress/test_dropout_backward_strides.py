"""native_dropout_backward of a transposed gradient: the result was row-major, eager's is as the gradient."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

G = torch.Generator().manual_seed(1)
GRADS = {"rows": torch.randn(6, 9, generator=G), "columns": torch.randn(9, 6, generator=G).t()}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("grad", GRADS)
@pytest.mark.parametrize("mask", GRADS)
def test_strides(grad: str, mask: str, dynamic: bool, compiler: Callable[..., Any]) -> None:
    def function(g: Tensor, m: Tensor) -> Tensor:
        return torch.ops.aten.native_dropout_backward(g, m, 1.25)

    args = GRADS[grad], GRADS[mask] > 0
    mine = compiler(function, dynamic=dynamic)(*args)
    torch.testing.assert_close(mine, function(*args), rtol=0, atol=0, check_stride=True)
