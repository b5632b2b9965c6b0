"""The gradient of a weight of each channel, with windows of 5 x 5, was the library's: for each element of the
weight it took memory of 256, 28 MiB of a step of an EfficientNet. Here the gradient of the image was computed
again in the kernel of sums for each channel that follow it, from all of its windows as a tensor."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dlc.report import Graph, collect
from tests.tolerance import assert_program

BACKWARD = "aten.convolution_backward.default"


class Net(nn.Module):
    def __init__(self, size: int, stride: int, c: int = 48) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(8, c, 1, bias=False), nn.Conv2d(c, 8, 1)
        self.deep = nn.Conv2d(c, c, size, stride, size // 2, groups=c)
        self.norm = nn.BatchNorm2d(c)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(F.silu(self.deep(F.silu(self.norm(self.wide(x))))))


def gradients(fn: Callable[..., Any], net: nn.Module, x: Tensor) -> dict[str, Tensor]:
    names, weights = zip(*net.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(fn(x).square().sum(), weights), strict=True))


@pytest.mark.in_turn(3)
@pytest.mark.parametrize(("size", "stride", "calls"), [(5, 1, 2), (5, 2, 2), (7, 1, 2), (3, 1, 3)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients(size: int, stride: int, calls: int, dynamic: bool, compiler: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    net, x = Net(size, stride), torch.randn(2, 8, 14, 18)
    exact = copy.deepcopy(net).double()
    fn = compiler(net, dynamic=dynamic, options={"tier": "tcc", "strict": True})
    with collect() as reports:
        got = gradients(fn, net, x)
    assert_program(got, gradients(net, net, x), gradients(exact, exact, x.double()))
    graphs = [Graph.from_report(report) for report in reports]
    assert sum(target == BACKWARD for graph in graphs for target, _, _ in graph.calls) == calls


@pytest.mark.parametrize("size", [5, 7])
def test_no_windows_as_a_tensor(size: int, compiler: Callable[..., Any]) -> None:
    """The backward takes a few images, not one for each place of a window."""
    net, x = Net(size, 1), torch.randn(1, 8, 32, 32)
    with collect() as reports:
        gradients(compiler(net, options={"tier": "tcc"}), net, x)
    image = 48 * (32 + size) ** 2 * 4
    for report in reports:
        taken = report["callable"].memory({})
        assert taken["workspace"] <= 4 * image
