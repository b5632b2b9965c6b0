"""A gradient that is conjugated or negated when it is read was taken by its memory."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def slopes(f: Callable[[Tensor], Tensor], loss: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    leaf = z.clone().requires_grad_()
    loss(f(leaf)).backward()
    assert leaf.grad is not None
    return leaf.grad


def test_conjugated_tangent(compiler: Callable[..., Any]) -> None:
    def f(z: Tensor) -> Tensor:
        return z * (1 + 2j)

    z, w = torch.randn(8, dtype=torch.cfloat), torch.randn(8, dtype=torch.cfloat)

    def loss(y: Tensor) -> Tensor:
        return (y.conj() * w).real.sum()

    torch.testing.assert_close(slopes(compiler(f), loss, z), slopes(f, loss, z))


def test_negated_tangent(compiler: Callable[..., Any]) -> None:
    def f(x: Tensor) -> Tensor:
        return x * 3

    x = torch.randn(8)

    class Negated(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, y: Tensor) -> Tensor:
            return y.clone()

        @staticmethod
        def backward(ctx: Any, tangent: Tensor) -> Tensor:
            lazy = torch.complex(tangent, tangent).conj().imag
            assert lazy.is_neg()
            return lazy

    def loss(y: Tensor) -> Tensor:
        return Negated.apply(y).sum()

    torch.testing.assert_close(slopes(compiler(f), loss, x), slopes(f, loss, x))
