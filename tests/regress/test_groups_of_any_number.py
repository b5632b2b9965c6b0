"""Views of results whose group counts are sizes, which may be 0 for all that is known.

torch writes the strides of such tensors as products of max(1, size). Where a tensor has elements these are
the strides of rows; they were taken for others, so that a view of a result was refused or copied.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_like_eager

Compiler = Callable[..., Any]
Groups = Callable[[Tensor, Tensor], int]

GROUPS: dict[str, Groups] = {
    "a third of the size": lambda x, g: x.shape[1] // 3,
    "another tensor's size": lambda x, g: g.shape[0],
    "a quotient of sizes": lambda x, g: x.shape[1] // g.shape[0],
}


def sums(x: Tensor, groups: int) -> tuple[Tensor, ...]:
    y = x.unflatten(1, (groups, -1)).softmax(2).flatten(1, 2)
    return y, y.unflatten(1, (groups, -1)).sum(2)


def view(x: Tensor, groups: int) -> tuple[Tensor, ...]:
    y = x.unflatten(1, (groups, -1)).softmax(2).flatten(1, 2)
    return y, y.unflatten(1, (groups, -1))


def view_first(x: Tensor, groups: int) -> tuple[Tensor, ...]:
    y = x.unflatten(1, (groups, -1)).log_softmax(2)
    return y.flatten(1, 2), y


def rows(x: Tensor, groups: int) -> tuple[Tensor, ...]:
    """The view is of all axes of a result."""
    y = x.unflatten(1, (groups, -1)).sort(2)[0]
    return y, y.flatten(), y.transpose(1, 2)


def cut(x: Tensor, groups: int) -> tuple[Tensor, ...]:
    y = x.unflatten(1, (groups, -1)).softmax(2)
    return y.flatten(1, 2), y[:, 1:], y[..., 0]


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("grad", [False, True], ids=["alone", "with gradients"])
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("function", [sums, view, view_first, rows, cut], ids=lambda f: f.__name__)
def test_views(compiler: Compiler, function: Any, groups: str, grad: bool, dynamic: bool) -> None:
    def f(x: Tensor, g: Tensor) -> tuple[Tensor, ...]:
        results: tuple[Tensor, ...] = function(x, GROUPS[groups](x, g))
        return results

    compiled = compiler(f, dynamic=dynamic, options={"verify": True})
    for shape in ((2, 12, 5), (3, 24, 4)):
        x = torch.randn(shape, requires_grad=grad)
        results = compiled(x, torch.randn(4))
        assert_like_eager(lambda *_, made=results: made, f, x, torch.randn(4))
        assert len({r.untyped_storage().data_ptr() for r in results}) == len(
            {r.untyped_storage().data_ptr() for r in f(x, torch.randn(4))}
        )


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_tiers(compiler: Compiler, tier: str) -> None:
    def f(x: Tensor, g: Tensor) -> tuple[Tensor, ...]:
        return sums(x, x.shape[1] // g.shape[0])

    x = torch.randn(2, 12, 5, 3, requires_grad=True)
    assert_like_eager(compiler(f, dynamic=True, options={"tier": tier}), f, x, torch.randn(4))


@pytest.mark.parametrize("shape", [(0, 12, 5), (2, 0, 5), (2, 12, 0)], ids=str)
def test_strides_of_nothing(compiler: Compiler, shape: tuple[int, ...]) -> None:
    """Results without elements have eager's strides, in which sizes of 0 count as 1."""

    def f(x: Tensor, g: Tensor) -> tuple[Tensor, ...]:
        y = x.unflatten(1, (g.shape[0], -1)).softmax(2)
        return y, y.flatten(1, 2), y.transpose(1, 2)

    compiled = compiler(f, dynamic=True)
    for size in ((2, 12, 5), shape):
        got, want = compiled(torch.randn(size), torch.randn(4)), f(torch.randn(size), torch.randn(4))
        assert [(r.shape, r.stride()) for r in got] == [(r.shape, r.stride()) for r in want]
