"""An alias of an input that the forward writes to must not be saved for the backward."""

from collections.abc import Callable
from typing import Any

import pytest
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


def flipped(x: Tensor, w: Tensor) -> Tensor:
    y = x * w[1:].flip(0)
    w.mul_(2)
    return y


def repeated(x: Tensor, w: Tensor) -> Tensor:
    y = x * w[:1].repeat(3, 1)
    w.mul_(2)
    return y


def twice(x: Tensor, w: Tensor) -> Tensor:
    """Of the copy of its transpose the input itself is made again."""
    y = x @ w.t().contiguous()
    w.add_(1)
    return y.sin()


@pytest.mark.parametrize("function", [flipped, repeated, twice])
@pytest.mark.parametrize("dynamic", [False, True])
def test_copies_that_are_views_here(compiler: Callable[..., Any], function: Any, dynamic: bool) -> None:
    """The input was passed on instead of its copy, and the gradient was of what it has become."""
    compiled = compiler(function, dynamic=dynamic)
    gradients = []
    for run in (function, compiled):
        x = torch.arange(12.0).reshape(3, 4).double().requires_grad_()
        w = torch.arange(16.0).reshape(4, 4).double() + 1
        (gradient,) = torch.autograd.grad(run(x, w).square().sum(), [x])
        gradients.append(gradient)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)
