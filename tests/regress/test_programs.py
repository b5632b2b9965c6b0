"""Bugs that whole programs had, each in its smallest form."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.tolerance import assert_like_eager

Compiler = Callable[..., Any]


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_quotients_of_loops_are_not_values(compiler: Compiler, tier: str) -> None:
    """Three parallel loops made a quotient named like a value of the program, which it hid: a crash."""

    def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-b, a], dim=-1) * sin

    def f(angle: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        angle = torch.cat([angle, angle], dim=-1)
        cos, sin = angle.cos(), angle.sin()
        return rotate(x, cos, sin), rotate(y, cos, sin).repeat_interleave(2, dim=1)

    inputs = torch.rand(12, 4), torch.randn(2, 4, 12, 8), torch.randn(2, 2, 12, 8)
    assert_like_eager(compiler(f, options={"tier": tier}), f, *inputs)


def test_lists_as_indices(compiler: Compiler) -> None:
    """Each list is a constant tensor of its own; they were taken for one."""

    def f(x: Tensor) -> Tensor:
        return x[[0, 0, 3], [1, 1, 3], [0, 0, 2]]

    assert_like_eager(compiler(f), f, torch.randn(5, 5, 5))


def test_operands_of_calls_are_contiguous(compiler: Compiler) -> None:
    """The copy that makes indices contiguous before an operator that needs it was dropped."""

    def f(indices: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
        return F.embedding_bag(indices, weight, offsets, mode="mean")

    indices = torch.tensor([1, 9, 2, 9, 4, 9, 3, 9, 7, 9])[::2]
    assert_like_eager(compiler(f), f, indices, torch.randn(10, 5), torch.tensor([0, 2, 4]))


def test_results_of_calls_keep_their_strides(compiler: Compiler) -> None:
    """An operator made a channels-last result where torch's rule for its shape says row-major."""

    def f(x: Tensor, indices: Tensor) -> Tensor:
        return F.max_unpool2d(x, indices, 2, 2)

    x, indices = F.max_pool2d(torch.randn(1, 2, 4, 8), 2, 2, return_indices=True)
    last = torch.channels_last
    x, indices = x.contiguous(memory_format=last), indices.contiguous(memory_format=last)
    assert_like_eager(compiler(f), f, x, indices)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_sizes_in_arithmetic(compiler: Compiler, mode: str) -> None:
    """Fusion followed a view of a size, which has no memory: a crash."""

    def f(x: Tensor) -> Tensor:
        return F.interpolate(x, size=(5, 6), mode=mode)

    assert_like_eager(compiler(f, dynamic=True), f, torch.randn(2, 3, 4, 5))
