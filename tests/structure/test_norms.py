"""Norms of groups of channels: what they move, where channels come first and where they are innermost.

One is a norm with its activation, forward and backward, of which bytes and phases over the whole image are
counted; the other is a U-Net of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dlc.report import collect
from tests.structure.traffic import traffic

N, C, GROUPS, SIDE = 2, 24, 8, 16
IMAGE = 4 * N * C * SIDE * SIDE
FORMATS = {"first": torch.contiguous_format, "last": torch.channels_last}

#: Images that a norm and its activation move: forward, then backward with its sums.
#: Where channels come first, a group is read once and written once. In the backward a channel and its
#: tangent are read, the gradient of the activation is written, and its sums find it in the cache; it and the
#: image are read for the result. Where channels are innermost, each of the two statistics, and each of the
#: two sums of the backward, goes through the image by itself.
IMAGES = {"first": (2, 6), "last": (4, 9)}


def norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(F.group_norm(x, GROUPS, w, b))


class Double(nn.Module):
    def __init__(self, c: int, out: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(c, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)])
        self.norms = nn.ModuleList(nn.GroupNorm(GROUPS, out) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for conv, each in zip(self.convs, self.norms, strict=True):
            x = F.silu(each(conv(x)))
        return x


class UNet(nn.Module):
    def __init__(self, c: int = 8) -> None:
        super().__init__()
        self.down, self.below, self.out = Double(c, C), Double(C, 2 * C), Double(2 * C, C)
        self.up = nn.ConvTranspose2d(2 * C, C, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        beside = self.down(x)
        return self.out(torch.cat([self.up(self.below(F.max_pool2d(beside, 2))), beside], 1))


@pytest.fixture
def loops(compiler: Callable[..., Any]) -> Callable[..., dict[str, str]]:
    def found(fn: Callable[..., Tensor], *args: Tensor) -> dict[str, str]:
        """Of each graph of a step of training."""
        with collect() as reports:
            compiler(fn, options={"tier": "tcc", "cache": False})(*args).sum().backward()
        assert not any("error" in (report["partition"] or {}) for report in reports)
        return {report["kind"]: report["loops"] for report in reports}

    return found


@pytest.mark.parametrize("layout", FORMATS)
def test_a_norm_moves_no_more_images_than_it_has_to(layout: str, loops: Callable[..., Any]) -> None:
    x = torch.randn(N, C, SIDE, SIDE).contiguous(memory_format=FORMATS[layout]).requires_grad_()
    weights = (torch.randn(C, requires_grad=True), torch.randn(C, requires_grad=True))
    for (kind, text), images in zip(loops(norm, x, *weights).items(), IMAGES[layout], strict=True):
        moved = int(traffic([text]).bytes)
        assert images * IMAGE <= moved < (images + 0.5) * IMAGE, f"{kind}: {moved / IMAGE} images"


def short_vectors(text: str) -> list[str]:
    """Loops of vectors that run along the channels of one group."""
    return re.findall(rf"(?:for|reduce) .* in (?:{C // GROUPS}|{2 * C // GROUPS}) .*vector", text)


def test_the_norms_of_a_u_net_run_along_all_channels(loops: Callable[..., Any]) -> None:
    """In no phase over an image does a vector stop at the channels of a group."""
    over_images = []
    last = torch.channels_last
    model, x = UNet().to(memory_format=last), torch.randn(1, 8, 32, 32).to(memory_format=last)
    for text in loops(model, x).values():
        phases = re.split(r"\n    for ", text)
        over_images.append(
            [
                phase
                for phase in phases
                if re.search(r"in (?:16|64|256|1024) parallel", phase.partition("\n")[0])
            ]
        )
    assert all(len(phases) > 6 for phases in over_images)
    assert [short_vectors(phase) for phases in over_images for phase in phases if short_vectors(phase)] == []
