"""A function that decides by a floating argument, in one graph for all its values: each gets its own."""

import math

import torch
from torch import Tensor


def test_order_of_a_norm() -> None:
    torch._dynamo.reset()

    def function(x: Tensor, order: float) -> Tensor:
        return torch.linalg.vector_norm(x, ord=order, dim=0)

    compiled = torch.compile(function, backend="dlc", dynamic=True, options={"strict": True})
    x = torch.tensor([3.0, -4.0, 0.5])
    with torch.no_grad():
        for order in (0.9, float("inf"), -2.1, -float("inf"), 1.5, 2.0):
            torch.testing.assert_close(compiled(x, order), function(x, order))


def test_number_of_a_difference() -> None:
    torch._dynamo.reset()

    def function(x: Tensor, n: int) -> Tensor:
        return torch.diff(x, n=n)

    compiled = torch.compile(function, backend="dlc", dynamic=True, options={"strict": True})
    x = torch.arange(9.0).square().sin()
    with torch.no_grad():
        for n in (2, 3, 1, 4):
            torch.testing.assert_close(compiled(x, n), function(x, n))


def test_root_of_a_quotient() -> None:
    """Dynamo has math.sqrt as torch._sym_sqrt, and the graph is taken directly."""
    torch._dynamo.reset()

    def function(x: Tensor, scale: float) -> Tensor:
        return torch.tanh(math.sqrt(2.0 / scale) * x)

    options = {"strict": True, "capture": "direct"}
    compiled = torch.compile(function, backend="dlc", dynamic=True, options=options)
    x = torch.tensor([3.0, -4.0, 0.5])
    with torch.no_grad():
        for scale in (3.1, 0.7, 5.0):
            torch.testing.assert_close(compiled(x, scale), function(x, scale))
