"""Gradients of losses are row-major whatever the layout of the inputs is, as eager's are."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.tolerance import assert_like_eager, strides


@pytest.mark.parametrize("loss", [functional.mse_loss, functional.huber_loss, functional.smooth_l1_loss])
def test_gradients_of_transposed_inputs(loss: Callable[..., Tensor], compiler: Callable[..., Any]) -> None:
    def f(x: Tensor, y: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss(x, y, reduction="none"), (x, y), grad)

    def run(x: Tensor, y: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
        compiled = compiler(lambda x, y: loss(x, y, reduction="none"))
        return torch.autograd.grad(compiled(x, y), (x, y), grad)

    x, y = (torch.randn(10, 5).t().requires_grad_() for _ in range(2))
    grad = torch.randn(5, 10)
    assert_like_eager(run, f, x, y, grad)
    assert [strides(g) for g in run(x, y, grad)] == [strides(g) for g in f(x, y, grad)]


def test_gradient_of_cross_entropy_with_probabilities(compiler: Callable[..., Any]) -> None:
    x, y = (torch.rand(3, 2).t().requires_grad_() for _ in range(2))
    loss = functional.cross_entropy
    made, eager = (torch.autograd.grad(f(x, y), (x, y)) for f in (compiler(loss), loss))
    torch.testing.assert_close(made, eager)
    assert [strides(g) for g in made] == [strides(g) for g in eager]
