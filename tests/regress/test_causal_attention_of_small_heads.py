"""Weights of attention that are packed: their number depends on the rows that the mask leaves.

The buffer's extent named the index of a loop, so that the kernel was not compiled.
"""

import pytest
import torch
import torch.nn.functional as F


@pytest.mark.parametrize("heads", [4, 1])
def test_causal(heads: int) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(4, heads, 128, 16) for _ in range(3))

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    compiled = torch.compile(attention, backend="dlc", options={"tier": "tcc", "strict": True})
    with torch.no_grad():
        torch.testing.assert_close(compiled(q, k, v), attention(q, k, v))
