"""Results that repeat elements (a stride of 0) are made as eager has them; every call ran eagerly."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import dlc
from tests.tolerance import assert_like_eager


def positions(x: Tensor) -> tuple[Tensor, Tensor]:
    return x + 1, torch.arange(6)[None].expand(4, -1)


def zeros(x: Tensor) -> tuple[Tensor, Tensor]:
    return x + 1, torch.zeros(4).expand(3, 4)


def test_results_of_an_expanded_range(compiler: Callable[..., Any]) -> None:
    for f in (positions, zeros):
        before = dlc.counters()["eager_calls"]
        with torch.no_grad():
            assert_like_eager(compiler(f), f, torch.randn(3))
        assert dlc.counters()["eager_calls"] == before


def test_in_a_jitted_function() -> None:
    for f in (positions, zeros):
        x = torch.randn(3)
        for made, right in zip(dlc.jit(f)(x), f(x), strict=True):
            assert torch.equal(made, right) and made.stride() == right.stride()


def test_with_a_size_that_depends_on_data(compiler: Callable[..., Any]) -> None:
    def f(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, torch.arange(n.item())[None].expand(4, -1)

    with torch.no_grad(), torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert_like_eager(compiler(f), f, torch.randn(3), torch.tensor(5))
