"""The greatest magnitude of complex numbers was found in their own dtype, and then widened."""

import pytest
import torch
from torch import Tensor


@pytest.mark.parametrize("order", [float("inf"), float("-inf"), 3.0])
def test_in_the_dtype_asked_for(order: float) -> None:
    def f(x: Tensor) -> Tensor:
        return torch.linalg.vector_norm(x, order, [0], True, dtype=torch.complex128)

    x = torch.randn(50, 3, dtype=torch.complex64)
    torch.testing.assert_close(torch.compile(f, backend="dlc")(x), f(x), rtol=1e-14, atol=0)
