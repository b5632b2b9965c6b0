"""gcc 12 read the elements of several short rows by the condition of the first: imaginary parts were zero."""

import pytest
import torch
from torch import Tensor


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("n", [2, 3, 5, 7, 16])
def test_diagonals_of_complex_numbers(n: int, tier: str) -> None:
    def f(x: Tensor) -> Tensor:
        return torch.diag_embed(x, 1, 1, 2)

    torch._dynamo.reset()
    run = torch.compile(f, backend="dlc", options={"tier": tier, "strict": True})
    x = torch.randn(1, 5, n, dtype=torch.complex64).mT
    assert torch.equal(run(x), f(x))
