"""Of an operand without elements a number is made up, which no complex constant can be."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_sum_of_nothing(dtype: torch.dtype, tier: str, compiler: Callable[..., Any]) -> None:
    def function(z: Tensor) -> Tensor:
        return (z * 2).sum(0)

    z = torch.zeros(0, 3, dtype=dtype)
    torch.testing.assert_close(compiler(function, options={"tier": tier})(z), function(z))
