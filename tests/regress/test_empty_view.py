"""A view without elements that is a result: the passes make it a constant that shares its base."""

import torch
from torch import Tensor


def test_view_of_an_input() -> None:
    torch._dynamo.reset()

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sin().sum(0), x.reshape(-1)

    compiled = torch.compile(function, backend="dlc", options={"strict": True})
    x = torch.ones(2, 0)
    total, flat = compiled(x)
    assert total.shape == (0,) and flat.shape == (0,)
    assert flat._is_view() and flat._base is x


def test_view_of_a_result() -> None:
    torch._dynamo.reset()

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.sin()
        return y, y.reshape(-1)

    compiled = torch.compile(function, backend="dlc", options={"strict": True})
    whole, flat = compiled(torch.ones(2, 0))
    assert whole.shape == (2, 0) and flat.shape == (0,)


def test_strides_of_sizes_that_are_names() -> None:
    torch._dynamo.reset()

    def function(x: Tensor, a: int, b: int) -> Tensor:
        return x.unflatten(0, (a, b))

    compiled = torch.compile(function, backend="dlc", dynamic=True, options={"strict": True})
    assert compiled(torch.empty(4, 0), 2, 2).stride() == (2, 1, 1)
