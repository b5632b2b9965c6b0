"""Causal attention over more keys than a chain of a sum has: where the last chain begins is up to the block.

The block's own buffer of weights was taken for one whose rows another block makes, and the graph ran eagerly.
"""

import pytest
import torch
import torch.nn.functional as F


@pytest.mark.parametrize("length", [300, 600])
def test_causal(length: int) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 4, length, 16) for _ in range(3))

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    compiled = torch.compile(attention, backend="dlc", options={"tier": "tcc", "strict": True})
    with torch.no_grad():
        torch.testing.assert_close(compiled(q, k, v), attention(q, k, v))
