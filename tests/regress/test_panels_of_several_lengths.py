"""Phases for several lengths of rows have one text, whose offsets may not assume the shortest of them.

A panel before the loops had one block of 32 columns where a row has at most 16 elements, so its stride was
a number in the text for all lengths: attention to 37 keys read the wrong panels.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def operands(batches: int, queries: int, keys: int) -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    return tuple(
        torch.randn(batches, n, heads, 8).transpose(1, 2) for n, heads in ((queries, 6), (keys, 2), (keys, 2))
    )


def test_panels_of_several_lengths() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(attention, backend="dlc", options={"products": "own", "tier": "gcc"})
    with torch.no_grad():
        for sizes in ((3, 4, 20), (2, 6, 21), (4, 5, 37), (2, 3, 16), (2, 3, 70)):
            args = operands(*sizes)
            torch.testing.assert_close(compiled(*args), attention(*args))
