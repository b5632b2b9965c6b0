"""An operator of eleven arguments: their defaults were read one beyond the last (for make asan)."""

import torch
from torch import nn


def test_gradient_of_a_convolution() -> None:
    torch._dynamo.reset()
    layer = nn.Conv2d(2, 3, 3)
    x = torch.ones(1, 2, 5, 5)
    torch.compile(layer, backend="dlc", options={"strict": True})(x).sum().backward()
    torch.testing.assert_close(layer.bias.grad, torch.full((3,), 9.0))
