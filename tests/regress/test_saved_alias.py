"""An alias of an input that the forward writes to must not be saved for the backward."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def norm(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return F.instance_norm(x, mean, variance, use_input_stats=True, momentum=0.5)


def test_two_forwards_and_the_first_backward(compiler: Callable[..., Any]) -> None:
    compiled = compiler(norm)
    gradients = []
    for function in (norm, compiled):
        x = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
        statistics = torch.zeros(2).double(), torch.ones(2).double()
        first, _ = function(x, *statistics), function(x * 2, *statistics)
        (gradient,) = torch.autograd.grad(first.square().sum(), [x])
        gradients.append(gradient)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)
