"""Half of a size that is known to be even, times an index, kept no stride: `(n*i) // 2`, and sums with `16*n`
and `32*(n // 2)`. A U-Net of images whose sizes change ran eagerly."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.tolerance import assert_program


class Net(nn.Module):
    """Its weights have sizes that do not change."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(32, 16, 2, 2), nn.Conv2d(32, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(torch.cat([x, self.up(self.down(F.max_pool2d(x, 2)))], 1))


@pytest.mark.parametrize("products", ["auto", "own"])
def test_half_of_an_even_size(products: str, compiler: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    net = Net().eval()
    exact = copy.deepcopy(net).double()
    with torch.no_grad():
        compiled = compiler(net, dynamic=True, options={"products": products, "tier": "tcc", "strict": True})
        for size in (8, 12):
            x = torch.randn(1, 3, size, size)
            assert_program({"y": compiled(x)}, {"y": net(x)}, {"y": exact(x.double())})
