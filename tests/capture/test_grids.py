"""Images read at the points of a grid, by interpolation between the elements there."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dlc.report import collect
from tests.capture.whole import check_whole, spread
from tests.tolerance import assert_same_bits

pytestmark = pytest.mark.in_turn(2)

G = torch.Generator().manual_seed(1)
IMAGE = torch.randn(2, 3, 13, 34, generator=G)
GRID = torch.rand(2, 7, 9, 2, generator=G) * 2.6 - 1.3  # some points are outside


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid(mode: str, padding: str, compiler: Callable[..., Any]) -> None:
    """Eager's kernel, which reads for whole vectors at a time, is five times as fast as loops and more."""

    def function(x: Tensor, grid: Tensor) -> list[Tensor]:
        return [F.grid_sample(x * 2, grid, mode, padding, align) + 1 for align in (False, True)]

    given = [(IMAGE, GRID), (IMAGE.double(), GRID.double()), (IMAGE, GRID[:, :0]), spread((IMAGE, GRID))]
    for (x, grid), dynamic in zip(given, (False, False, False, True), strict=True):
        with collect() as reports:
            mine = compiler(function, dynamic=dynamic)(x, grid)
        for a, b in zip(mine, function(x, grid), strict=True):
            assert_same_bits(a, b)
        (calls,) = [[call[0] for call in report["calls"]] for report in reports]
        assert sum("grid_sampler_2d" in call for call in calls) == 2
        assert dynamic or len(calls) == 2


def test_gradient_of_a_grid(compiler: Callable[..., Any]) -> None:
    def gradients(function: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        x, grid = IMAGE.clone().requires_grad_(), GRID.clone().requires_grad_()
        return torch.autograd.grad(function(x, grid).square().sum(), (x, grid))

    def function(x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x * 2, grid, align_corners=False)

    torch.testing.assert_close(gradients(compiler(function)), gradients(function), rtol=1e-4, atol=1e-4)


VOLUME = torch.randn(2, 3, 5, 6, 17, generator=G)
POINTS = torch.rand(2, 4, 5, 9, 3, generator=G) * 3 - 1.5
POINTS.view(-1)[::17] = torch.nan
POINTS.view(-1)[5::23] = torch.inf
POINTS.view(-1)[7::29] = 1.0
POINTS.view(-1)[8::31] = -1.0


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_in_a_volume(mode: str, padding: str) -> None:
    """Eager's bits."""

    def function(x: Tensor, grid: Tensor) -> list[Tensor]:
        return [F.grid_sample(x, grid, mode, padding, align) for align in (False, True)]

    for capture in ("aot", "direct"):
        check_whole(function, VOLUME, POINTS, exact=True, capture=capture)
    check_whole(function, *spread((VOLUME, POINTS)), exact=True, tier="gcc")
    check_whole(function, VOLUME.double(), POINTS.double(), exact=True, dynamic=True)
    check_whole(function, VOLUME[:1, :, :1, :1, :1], POINTS[:1, :1], exact=True)
    check_whole(function, VOLUME, POINTS[:, :, :0], exact=True)


def test_grid_in_a_volume_of_halves_is_a_call(compiler: Callable[..., Any]) -> None:
    def function(x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x, grid, align_corners=False) + 1

    x, grid = VOLUME.bfloat16(), POINTS.bfloat16()
    assert_same_bits(compiler(function)(x, grid), function(x, grid))


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_gradient_of_a_grid_in_a_volume(mode: str, padding: str, compiler: Callable[..., Any]) -> None:
    points = POINTS.nan_to_num(posinf=0.3).double()

    def gradients(call: Callable[..., Tensor], x: Tensor, wanted: list[bool]) -> tuple[Tensor, ...]:
        leaves = [t.clone().requires_grad_(on) for t, on in zip((x, points), wanted, strict=True)]
        results = call(*leaves)
        return torch.autograd.grad(results.square().sum(), [t for t in leaves if t.requires_grad])

    for align in (False, True):
        for x, wanted in (
            (VOLUME, [True, True]),
            (VOLUME, [True, False]),
            (VOLUME[:, :, :1, 1:2], [False, True]),
        ):

            def function(x: Tensor, grid: Tensor) -> Tensor:
                return F.grid_sample(x * 2, grid, mode, padding, align)  # noqa: B023

            if mode == "nearest" and not wanted[0]:
                continue
            with collect() as reports:
                mine = gradients(compiler(function, options={"tier": "tcc"}), x.double(), wanted)
            assert not [call[0] for report in reports for call in report["calls"]]
            torch.testing.assert_close(mine, gradients(function, x.double(), wanted))


def test_wrong_grid_is_eagers_error(compiler: Callable[..., Any]) -> None:
    def function(x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x, grid, "bicubic", align_corners=False)

    for call in (function, compiler(function)):
        with pytest.raises(RuntimeError, match="bicubic interpolation only supports 4D input"):
            call(VOLUME, POINTS)
