"""Between two calls that want channels last a kernel writes channels last: nothing transposes.

Convolutions of a model whose images are in rows want it too, without gradients.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dlc import _C
from dlc.report import Graph, collect
from tests.tolerance import strides

LAST = torch.channels_last
#: convolutions are calls, whose operands and results have a layout
LIBRARY = {"products": "library"}


class Two(nn.Module):
    def __init__(self, c: int = 16) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(c, c, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


class Mobile(nn.Module):
    """An inverted residual: convolutions, batch norms, an addition."""

    def __init__(self, c: int = 16) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(c, 4 * c, 1, bias=False), nn.Conv2d(4 * c, c, 1, bias=False)
        self.deep = nn.Conv2d(4 * c, 4 * c, 3, padding=1, groups=4 * c, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(k * c) for k in (4, 4, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self.norms[0](self.wide(x)))
        return x + self.norms[2](self.narrow(F.relu6(self.norms[1](self.deep(y)))))


class UNet(nn.Module):
    """A level of one: a pool, an upsampling, a concatenation."""

    def __init__(self, c: int = 16) -> None:
        super().__init__()
        self.down, self.below = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, 2 * c, 3, padding=1)
        self.up, self.out = nn.Conv2d(3 * c, c, 3, padding=1), nn.Conv2d(c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        beside = self.down(x).relu()
        y = self.below(F.max_pool2d(beside, 2)).relu()
        y = torch.cat([F.interpolate(y, scale_factor=2.0), beside], 1)
        return self.out(self.up(y).relu())


class Gate(nn.Module):
    """Squeeze and excite, padding and an average pool."""

    def __init__(self, c: int = 16) -> None:
        super().__init__()
        self.first, self.gate, self.last = nn.Conv2d(c, c, 3), nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).relu()
        y = y * self.gate(F.adaptive_avg_pool2d(y, 1)).sigmoid()
        return self.last(F.avg_pool2d(F.pad(y, (1, 1, 1, 1)), 2))


def copies_in(reports: list[dict[str, Any]]) -> list[str]:
    """Calls of all graphs that only move elements."""
    calls = [target for report in reports for target, _, _ in Graph.from_report(report).calls]
    return [target for target in calls if any(word in target for word in ("contiguous", "clone", "copy"))]


def kernels_of(reports: list[dict[str, Any]]) -> list[int]:
    return [Graph.from_report(report).kernels for report in reports]


def image() -> Tensor:
    return torch.randn(2, 16, 8, 8).to(memory_format=LAST)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("module", "kernels"), [(Two, 1), (Mobile, 3), (UNet, 3), (Gate, 3)])
def test_inference(
    module: Callable[[], nn.Module], kernels: int, dynamic: bool, compiler: Callable[..., Any]
) -> None:
    model, x = module().to(memory_format=LAST).eval(), image()
    with torch.no_grad(), collect() as reports:
        made, eager = compiler(model, dynamic=dynamic, options=LIBRARY)(x), model(x)
    torch.testing.assert_close(made, eager)
    assert strides(made) == strides(eager) and eager.is_contiguous(memory_format=LAST)
    assert not copies_in(reports) and kernels_of(reports) == [kernels]


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("module", "kernels"), [(Two, [1, 1]), (Mobile, [6, 8]), (UNet, [7, 8]), (Gate, None)]
)
def test_training(
    module: Callable[[], nn.Module], kernels: list[int] | None, dynamic: bool, compiler: Callable[..., Any]
) -> None:
    model, x, weight = module().to(memory_format=LAST), image().requires_grad_(), None
    results = []
    with collect() as reports:
        for run in (compiler(copy.deepcopy(model), dynamic=dynamic), model):
            y = run(x)
            weight = torch.randn_like(y) if weight is None else weight
            results.append([y, *torch.autograd.grad(y, [x, *run.parameters()], weight)])
    for made, eager in zip(*results, strict=True):
        torch.testing.assert_close(made, eager, atol=1e-4, rtol=1e-4)
        assert strides(made) == strides(eager)
    if module is UNet and dynamic:
        kernels = [8, 8]  # the scale of the upsampling is computed from the sizes
    assert not copies_in(reports) and kernels in (None, kernels_of(reports))


def test_a_value_that_the_graph_returns_in_rows_too(compiler: Callable[..., Any]) -> None:
    model = Two().to(memory_format=LAST).eval()

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = model.first(x).relu()
        return model.second(y), y.contiguous()

    x = image()
    with torch.no_grad():
        made, eager = compiler(f)(x), f(x)
    torch.testing.assert_close(made, eager)
    assert [strides(t) for t in made] == [strides(t) for t in eager]


def test_volumes(compiler: Callable[..., Any]) -> None:
    model = nn.Sequential(nn.Conv3d(4, 4, 3), nn.ReLU(), nn.Conv3d(4, 4, 1)).eval()
    model = model.to(memory_format=torch.channels_last_3d)
    x = torch.randn(2, 4, 5, 6, 7).to(memory_format=torch.channels_last_3d)
    with torch.no_grad(), collect() as reports:
        made, eager = compiler(model, options=LIBRARY)(x), model(x)
    torch.testing.assert_close(made, eager)
    assert strides(made) == strides(eager)
    assert not copies_in(reports) and kernels_of(reports) == [1]


def convolutions_of(reports: list[dict[str, Any]]) -> list[bool]:
    """Of each convolution that is a call: is its result channels last in the program?"""
    text = "\n".join(Graph.from_report(report).texts["graph"] for report in reports)
    lets = [line for line in text.splitlines() if re.search("call[^@]*conv[^@]*@", line)]
    return ["strides" in line for line in lets]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("module", "last"), [(Two, [1, 1]), (Mobile, [1, 1, 1]), (UNet, None), (Gate, None)])
def test_images_in_rows(
    module: Callable[[], nn.Module], last: list[bool] | None, dynamic: bool, compiler: Callable[..., Any]
) -> None:
    model, x = module().eval(), torch.randn(2, 16, 16, 16)
    with torch.no_grad(), collect() as reports:
        made, eager = compiler(model, dynamic=dynamic, options=LIBRARY)(x), model(x)
    torch.testing.assert_close(made, eager)
    assert strides(made) == strides(eager) and eager.is_contiguous()
    assert len(copies_in(reports)) <= 1 and last in (None, convolutions_of(reports))


def test_rows_that_the_graph_returns_on_the_way(compiler: Callable[..., Any]) -> None:
    model = Two().eval()

    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = model.first(x)
        z = y.relu()
        return y, z, z[:, 3:], model.second(z).flatten(1), y.view(2, -1)

    x = torch.randn(2, 16, 16, 16)
    with torch.no_grad():
        made, eager = compiler(f)(x), f(x)
    torch.testing.assert_close(made, eager)
    assert [strides(t) for t in made] == [strides(t) for t in eager]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_weight_larger_than_the_images_stays_in_rows(dynamic: bool, compiler: Callable[..., Any]) -> None:
    """A number of images that may change is not taken for many of them."""
    model = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1)).eval()
    x = torch.randn(2, 64, 4, 4)
    if dynamic:
        torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad(), collect() as reports:
        made, eager = compiler(model, options=LIBRARY)(x), model(x)
    torch.testing.assert_close(made, eager)
    assert convolutions_of(reports) == [False, False] and not copies_in(reports)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_which_convolutions_are_computed_here(dynamic: bool, compiler: Callable[..., Any]) -> None:
    """Channels by themselves, and one group, of 16 or more without AVX-512, beside others that stay calls."""
    here = [nn.Conv2d(16, 32, 1), nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 16, 3, stride=2)]
    few, groups = nn.Conv2d(8, 16, 3), nn.Conv2d(16, 8, 3, groups=2)
    model = nn.Sequential(*here, groups, nn.ReLU(), few).eval()
    x = torch.randn(2, 16, 16, 20)
    with torch.no_grad(), collect() as reports:
        made, eager = compiler(model, dynamic=dynamic)(x), model(x)
    torch.testing.assert_close(made, eager)
    assert strides(made) == strides(eager) and len(convolutions_of(reports)) == 2 - (_C.isa() == "avx512")
