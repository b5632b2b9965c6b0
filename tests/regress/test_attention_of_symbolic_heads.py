"""Attention of which all sizes are symbols.

It was three kernels with the scores in memory, and took up to twice the time: the symbols' bounds did not
prove that there are blocks of rows for several threads.
"""

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from torch import Tensor

SIZES = [(8, 100, 64), (4, 33, 64), (3, 192, 80), (2, 5, 300), (2, 300, 16)]


@pytest.mark.parametrize("causal", [False, True])
def test_bits_are_those_of_known_sizes(causal: bool) -> None:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    torch.manual_seed(0)
    compiled = torch.compile(attention, backend="dlc", dynamic=True, options={"strict": True})
    with torch.no_grad():
        for heads, length, head in SIZES:
            q, k, v = (torch.randn(1, heads, length, head) for _ in range(3))
            made = compiled(q, k, v)
            torch._dynamo.reset()
            known = torch.compile(attention, backend="dlc", dynamic=False)(q, k, v)
            assert torch.equal(made, known), (heads, length, head)
            torch.testing.assert_close(made, attention(q, k, v))
