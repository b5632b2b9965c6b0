"""Gradients of results whose axes lie in any order have eager's strides where sizes are symbolic too.

AOTAutograd asks for tangents in rows, or with channels last, where a size is symbolic, and gradients of a
permuted result followed these.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_same_kind

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows and channels": lambda x: x.transpose(1, 2).exp(),
    "channels innermost": lambda x: x.movedim(1, -1).exp(),
    "reversed": lambda x: x.permute(*reversed(range(x.dim()))).exp(),
    "columns": lambda x: x.transpose(-1, -2).relu() * 2,
    "sum of transposed": lambda x: x.transpose(1, 2).exp().sum(1),
    "sum and spread": lambda x: x.exp().sum(2, keepdim=True) * x,
    "expanded": lambda x: x.transpose(1, 2).exp() * x.mean(),
    "two operands": lambda x: x.transpose(1, 2).exp() * x.transpose(1, 2).sin(),
    "product": lambda x: x.transpose(-1, -2).exp() @ x,
    "sums of rows": lambda x: x.transpose(1, 2).softmax(-1).transpose(0, 1) * 2,
}
SHAPES = [(2, 3, 4, 5), (1, 3, 4, 5), (2, 1, 4, 5), (2, 3, 4, 1), (3, 4, 5), (2, 3, 4, 5, 2)]


def last(shape: tuple[int, ...]) -> Tensor:
    x = torch.linspace(-1, 1, int(torch.tensor(shape).prod())).view(shape[0], *shape[2:], shape[1])
    return x.movedim(-1, 1).detach().requires_grad_()


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_strides(compiler: Callable[..., Any], name: str, shape: tuple[int, ...], dynamic: bool) -> None:
    f, x = FUNCTIONS[name], last(shape)
    result, wanted = compiler(f, dynamic=dynamic)(x), f(x)
    weights = torch.rand_like(wanted)
    assert_same_kind(result, wanted)
    (got,), (want,) = (torch.autograd.grad(r, x, weights) for r in (result, wanted))
    torch.testing.assert_close(got, want)
    assert_same_kind(got, want)


@pytest.mark.parametrize("name", ["rows and channels", "expanded", "two operands"])
def test_other_sizes_of_the_same_graph(compiler: Callable[..., Any], name: str) -> None:
    f = FUNCTIONS[name]
    compiled = compiler(f, dynamic=True)
    for shape in [(2, 3, 4, 5), (3, 4, 2, 6), (0, 3, 4, 5)]:
        x = last(shape)
        weights = torch.rand_like(f(x))
        (got,), (want,) = (torch.autograd.grad(g(x), x, weights) for g in (compiled, f))
        torch.testing.assert_close(got, want)
        assert_same_kind(got, want)


def test_tangents_in_rows(compiler: Callable[..., Any]) -> None:
    """Whatever strides the gradient of the result has."""
    f, x = FUNCTIONS["rows and channels"], last((2, 3, 4, 5))
    weights = torch.rand(2, 4, 3, 5)
    (got,), (want,) = (torch.autograd.grad(g(x), x, weights) for g in (compiler(f, dynamic=True), f))
    torch.testing.assert_close(got, want)
