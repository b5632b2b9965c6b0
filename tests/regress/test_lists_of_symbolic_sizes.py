"""Operators of eager's that are called with lists in which some sizes are known at run time only."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

STRICT = {"strict": True, "tier": "tcc"}
WAYS = [("bicubic", True), ("bilinear", True), ("bicubic", False), ("bilinear", False)]
SIZES: dict[str, Callable[[Tensor], dict[str, Any]]] = {
    "numbers": lambda x: {"size": (3, 3)},
    "both symbolic": lambda x: {"size": (x.shape[2] // 2, x.shape[3] + 1)},
    "one symbolic": lambda x: {"size": (4, x.shape[3] // 2)},
    "factors": lambda x: {"scale_factor": (1.7, 0.6)},
}


def same_gradients(function: Callable[[Tensor], Tensor], *inputs: Tensor) -> None:
    """What is compiled for all inputs' sizes, without gradients and with, computes what eager does."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="dlc", dynamic=True, options=STRICT)
    for x in inputs:
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), function(x))
        mine, theirs = (x.clone().requires_grad_() for _ in range(2))
        got, want = compiled(mine), function(theirs)
        torch.testing.assert_close(got, want)
        seed = torch.randn_like(want)
        for result in (got, want):
            result.backward(seed)
        torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("mode", "antialias"), WAYS)
def test_resized(mode: str, antialias: bool, size: str) -> None:
    def function(x: Tensor) -> Tensor:
        return F.interpolate(x, **SIZES[size](x), mode=mode, antialias=antialias)

    same_gradients(function, torch.randn(1, 2, 8, 8), torch.randn(2, 2, 9, 7))


def test_resized_channels_last() -> None:
    def function(x: Tensor) -> Tensor:
        return F.interpolate(x * 2, size=(3, 3), mode="bicubic", antialias=True)

    images = [torch.randn(2, 3, n, n).to(memory_format=torch.channels_last) for n in (8, 9)]
    same_gradients(function, *images)


LISTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transform": lambda x: torch.fft.irfftn(torch.fft.rfftn(x, s=(x.shape[2], 6)), s=(x.shape[2] + 2, 8)),
    "convolution": lambda x: F.conv2d(x, torch.ones(2, 2, 2, 2), padding=(x.shape[2] % 2, 1)),
    "transposed": lambda x: F.conv_transpose2d(x, torch.ones(2, 2, 2, 2), padding=(x.shape[2] % 2, 1)),
    "reflected": lambda x: F.pad(x, (x.shape[2] % 2, 1, 2, x.shape[3] // 4), mode="reflect"),
    "unfolded": lambda x: F.fold(F.unfold(x, 2), (x.shape[2], x.shape[3]), 2),
    "pooled": lambda x: F.adaptive_max_pool2d(x, (x.shape[2] // 2, None)),
    "fractions": lambda x: F.adaptive_avg_pool2d(x, (None, x.shape[3] // 3)),
    "unpooled": lambda x: F.max_unpool2d(
        *F.max_pool2d(x, 2, return_indices=True), 2, output_size=[x.shape[2], x.shape[3]]
    ),
    "rolled": lambda x: torch.roll(x, (x.shape[2] // 2, 1), (2, 3)),
    "points": lambda x: F.grid_sample(
        x, F.affine_grid(torch.eye(2, 3)[None], [1, 2, x.shape[3], 4], False), align_corners=False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_called(name: str) -> None:
    same_gradients(LISTS[name], torch.randn(1, 2, 8, 10), torch.randn(1, 2, 9, 12))
