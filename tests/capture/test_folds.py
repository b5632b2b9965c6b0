"""Images put together: fold, and the gradients of what reads an element several times."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dlc.report import collect
from tests.capture.whole import FLOATS, check_whole, spread
from tests.tolerance import assert_program, double


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


#: The image's size, and the arguments of fold and unfold.
FOLDS: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {
    "side by side": ((8, 12), {"kernel_size": 2, "stride": 2}),
    "one element apart": ((7, 35), {"kernel_size": 3, "padding": 1}),
    "overlapping": ((9, 34), {"kernel_size": (3, 5), "stride": (2, 3), "padding": (1, 2)}),
    "with elements left over": ((9, 36), {"kernel_size": 2, "stride": 3}),
    "with holes": ((9, 35), {"kernel_size": (2, 3), "dilation": (3, 2), "padding": (1, 0)}),
    "with holes and steps": ((9, 35), {"kernel_size": 3, "dilation": 2, "stride": (2, 1), "padding": 2}),
    "beyond the image": ((5, 6), {"kernel_size": 3, "padding": 3, "stride": 2}),
    "one window": ((3, 4), {"kernel_size": (3, 4)}),
    "one element": ((1, 1), {"kernel_size": 1}),
}


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("name", FOLDS)
def test_fold(name: str, tier: str) -> None:
    size, window = FOLDS[name]
    columns = F.unfold(numbers(2, 3, *size), **window)
    columns = numbers(*columns.shape)
    check_whole(lambda x: F.fold(x, size, **window), columns, exact=True, tier=tier)
    check_whole(lambda x: F.fold(x[0] * 2, size, **window) + 1, spread(columns), exact=True, tier=tier)


@pytest.mark.parametrize("name", ["overlapping", "with holes"])
def test_fold_of_any_size(name: str) -> None:
    size, window = FOLDS[name]

    def function(x: Tensor) -> Tensor:
        return F.fold(F.unfold(x, **window), x.shape[2:], **window)

    check_whole(function, numbers(2, 3, *size), exact=True, dynamic=True)


def fold(x: Tensor) -> Tensor:
    return F.fold(x, (8, 12), kernel_size=2, stride=2)


def test_fold_of_any_channels(compiler: Callable[..., Any]) -> None:
    """That the windows divide them is a guard of torch's, which may be of an earlier graph's symbol."""
    marked, square = numbers(2, 16, 24), numbers(2, 4, 4, 24)
    torch._dynamo.mark_dynamic(marked, 1)
    compiler(fold)(marked)
    torch._dynamo.reset()
    compiler(lambda x: fold(x.reshape(2, -1, 24)), dynamic=True)(square)
    torch._dynamo.reset()
    compiled = compiler(fold, dynamic=True)
    for channels in (16, 8, 4):
        x = numbers(2, channels, 24)
        with collect() as reports:
            assert torch.equal(compiled(x), fold(x))
        assert [call[0] for r in reports for call in r["calls"]] == []


def test_fold_of_every_dtype_and_of_no_images() -> None:
    size, window = FOLDS["overlapping"]
    columns = F.unfold(numbers(2, 3, *size), **window)
    check_whole(lambda x: [F.fold(x.to(d), size, **window) for d in FLOATS], columns)
    check_whole(lambda x: F.fold(x, size, **window).sum(), columns[:0], exact=True)


#: Functions of an image and what they read several times.
READERS: dict[str, Callable[[Tensor], Tensor]] = {
    "unfold": lambda x: F.unfold(x, (3, 5), stride=(2, 3), padding=(1, 2)),
    "windows along an axis": lambda x: x.unfold(3, 5, 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest, smaller": lambda x: F.interpolate(x, size=(5, 9)),
    "nearest, exact": lambda x: F.interpolate(x, size=(20, 31), mode="nearest-exact"),
    "linear": lambda x: F.interpolate(x[0], size=50, mode="linear"),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear, corners": lambda x: F.interpolate(x, size=(20, 9), mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, size=(20, 31), mode="bicubic"),
    "trilinear": lambda x: F.interpolate(x[None], size=(4, 7, 31), mode="trilinear"),
    "nearest in a volume": lambda x: F.interpolate(x[None], size=(4, 7, 31)),
    "mean of uneven parts": lambda x: F.adaptive_avg_pool2d(x, (5, 7)),
    "mean of overlapping windows": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "reflected": lambda x: F.pad(x, (3, 2, 1, 4), mode="reflect"),
    "repeated at the edge": lambda x: F.pad(x, (3, 2, 1, 4), mode="replicate"),
}
CALLED = ("reflected", "repeated at the edge", "windows along an axis")  # their gradients


def gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> dict[str, Tensor]:
    x = x.clone().requires_grad_()
    result = function(x)
    (grad,) = torch.autograd.grad(result, x, numbers(*result.shape).to(x.dtype))
    return {"result": result.detach(), "gradient": grad}


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", READERS)
def test_gradient(name: str, dynamic: bool, compiler: Callable[..., Any]) -> None:
    function, x = READERS[name], numbers(2, 3, 12, 22)
    with collect() as reports:
        mine = gradient(compiler(function, dynamic=dynamic), x)
    assert_program(mine, gradient(function, x), gradient(function, double(x)))
    if not dynamic and name not in CALLED:
        assert [call[0] for r in reports for call in r["calls"]] == []
