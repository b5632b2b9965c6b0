"""Reductions over the pixels of images whose channels are many, few or in groups.

Each stands twice: with channels as the outer axis in memory, and as the innermost one ("last"). There the
pixels are far apart and the channels of a group few, so that vectors have to run across groups. Sizes that
give known shapes: 393216 is one image of 24 channels and 128 x 128 pixels, 655360 are two of 320 and 32 x 32.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.cases.case import Case, Inputs, case

FORMATS = {"first": torch.contiguous_format, "last": torch.channels_last}


def images(channels: int, most: int, layout: torch.memory_format, affine: bool) -> Inputs:
    """Images of at most `most` x `most` pixels, as many as n elements are, and two numbers a channel."""

    def made(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
        side = max(1, min(most, int((n // channels) ** 0.5)))
        x = torch.randn(max(1, n // (channels * side * side)), channels, side, side, generator=g)
        numbers = (torch.randn(channels, generator=g), torch.randn(channels, generator=g))
        return x.contiguous(memory_format=layout), *(numbers if affine else ())

    return made


def group_norm_8(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.group_norm(x, 8, weight, bias)


def group_norm_32(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.group_norm(x, 32, weight, bias)


def instance_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.instance_norm(x, None, None, weight, bias)


def channel_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer norm along the channels of each pixel."""
    var, mean = torch.var_mean(x, 1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(var + 1e-5) * weight[:, None, None] + bias[:, None, None]


# What is computed, the channels, the most pixels along a side, and whether there are two numbers a channel.
KINDS: dict[str, tuple[Callable[..., Tensor], int, int, bool]] = {
    "group norm 8 of 24": (group_norm_8, 24, 128, True),
    "group norm 32 of 320": (group_norm_32, 320, 32, True),
    "instance norm": (instance_norm, 24, 128, True),
    "channel norm": (channel_norm, 24, 128, True),
    "channel softmax": (lambda x: x.softmax(1), 24, 128, False),
    "channel sums": (lambda x: x.sum((0, 2, 3)), 24, 128, False),
}

CASES: tuple[Case, ...] = tuple(
    case(call, images(channels, most, FORMATS[at], affine), f"{name} {at}{' gradients' * train}", train)
    for name, (call, channels, most, affine) in KINDS.items()
    for at in FORMATS
    for train in (False, True)
)
