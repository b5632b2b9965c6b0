"""Padding with the tensor's own elements: eager's bits."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.capture.whole import FLOATS, INTEGERS, check_whole, spread

PADS = {
    "a line": ((2, 3, 5), (2, 3)),
    "a line without a batch": ((3, 5), (4, 0)),
    "an image": ((2, 3, 5, 6), (1, 2, 3, 4)),
    "an image on one side": ((2, 3, 5, 6), (0, 2, 0, 0)),
    "a volume": ((1, 2, 3, 4, 5), (1, 2, 3, 0, 0, 1)),
    "cut": ((2, 3, 5, 6), (-1, 2, 1, -2)),
}
MODES = ["reflect", "replicate"]


def tensor(shape: tuple[int, ...]) -> Tensor:
    return torch.randint(0, 100, shape, generator=torch.Generator().manual_seed(1)).float()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PADS)
def test_pad(name: str, mode: str) -> None:
    shape, pad = PADS[name]

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = F.pad(x, pad, mode=mode)
        return y, F.pad(x * 2, pad, mode=mode) + 1

    for capture in ("aot", "direct"):
        check_whole(function, tensor(shape), exact=True, capture=capture)
    check_whole(function, spread(tensor(shape)), exact=True, tier="gcc" if name == "cut" else "tcc")


@pytest.mark.parametrize("mode", MODES)
def test_pad_of_any_size(mode: str) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return F.pad(x, (1, 2, 2, 1), mode=mode), F.pad(y, (x.shape[0], 1), mode=mode)

    check_whole(function, tensor((2, 3, 5, 6)), tensor((2, 3, 7)), exact=True, dynamic=True)


@pytest.mark.parametrize("mode", MODES)
def test_pad_by_sizes(mode: str) -> None:
    """By positions, as the pieces are not known."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return F.pad(x, (y.shape[0], 1, y.shape[1], y.shape[0]), mode=mode) * 2, F.pad(
            x, (1, 1, 2, 0), mode=mode
        )

    check_whole(function, tensor((2, 3, 5, 6)), tensor((2, 3)), exact=True, dynamic=True)


@pytest.mark.parametrize("mode", MODES)
def test_pad_in_every_dtype(mode: str) -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [F.pad(x.to(d), (1, 2), mode=mode) for d in (*FLOATS, *INTEGERS)]

    check_whole(function, tensor((2, 3, 5)), exact=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(0, 3, 5), (1, 1, 3)])
def test_pad_in_little(shape: tuple[int, ...], mode: str) -> None:
    check_whole(lambda x: F.pad(x, (2, 0), mode=mode), tensor(shape), exact=True)
    check_whole(lambda x: F.pad(x, (0, 0), mode=mode), tensor(shape), exact=True)


def test_pad_of_one_element() -> None:
    check_whole(lambda x: F.pad(x, (3, 2), mode="replicate"), tensor((1, 1, 1)), exact=True)


def test_a_padded_convolution(compiler: Any) -> None:
    """The convolution is a library call; the padding before it is a kernel with what comes before that."""
    x, w = tensor((1, 2, 6, 6)), tensor((3, 2, 3, 3)) / 100

    def function(x: Tensor) -> Tensor:
        return F.conv2d(F.pad(x.relu(), (1, 1, 1, 1), mode="reflect"), w).relu()

    with torch.no_grad():
        torch.testing.assert_close(compiler(function)(x), function(x))
