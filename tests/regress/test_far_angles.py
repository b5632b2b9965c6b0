"""Kernels of sine and cosine that run a part again where an angle is far."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.tolerance import assert_like_eager


def test_an_index_from_a_far_angle(compiler: Callable[..., Any]) -> None:
    """The near form of a far angle is any number: the index made of it was called out of range."""

    def f(table: Tensor, x: Tensor) -> Tensor:
        return table[((torch.sin(x) + 1) * 127.5).long()]

    x = torch.randn(1000)
    x[::7] = 1e8 * torch.arange(1, 144)
    assert_like_eager(compiler(f, options={"tier": "gcc"}), f, torch.randn(256), x)


def test_a_scalar_of_another_width(compiler: Callable[..., Any]) -> None:
    """What stands before the loop is of float64, the loop's own angles are of float32."""

    def f(x: Tensor, t: Tensor) -> Tensor:
        return torch.sin(x) * torch.cos(t)

    x = torch.randn(100)
    x[3] = 3e9
    assert_like_eager(compiler(f, options={"tier": "gcc"}), f, x, torch.tensor(1e9, dtype=torch.float64))
