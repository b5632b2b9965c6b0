"""Forward mode in a function of dlc.jit, which calls operators for the sizes of tensors alone."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import hessian, jvp
from torch.testing import assert_close

import dlc


def tangent(x: Tensor) -> Tensor:
    return jvp(torch.sin, (x,), (x.cos(),))[1]


def dual(x: Tensor) -> Tensor:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(torch.sin(forward_ad.make_dual(x, x.cos()))).tangent


def curvature(x: Tensor) -> Tensor:
    return hessian(lambda y: (y**3).sum() + y.prod())(x)


@pytest.mark.parametrize(
    ("function", "sizes"),  # torch has no Hessian of no elements
    [(tangent, (0, 1, 4, 5)), (dual, (0, 1, 4, 5)), (curvature, (1, 4, 5))],
)
def test_it_computes_what_eager_does(function: Callable[[Tensor], Tensor], sizes: tuple[int, ...]) -> None:
    fast = dlc.jit(function)
    for size in sizes:
        x = torch.linspace(0.1, 1, size, dtype=torch.float64)
        assert_close(fast(x), function(x))


def test_a_comparison_of_sizes_is_a_condition_of_the_variant() -> None:
    def alike(x: Tensor, y: Tensor) -> Tensor:
        return x + 1 if x.is_same_size(y) else x - 1

    fast = dlc.jit(alike)
    for size in (4, 5, 1, 4):
        x, y = torch.ones(4), torch.ones(size)
        assert_close(fast(x, y), alike(x, y))


def test_a_result_without_values_is_refused() -> None:
    with pytest.raises(dlc.CaptureError, match="the device meta, so it has no values"):
        dlc.jit(lambda x: x.to("meta") + 1)(torch.ones(3))
