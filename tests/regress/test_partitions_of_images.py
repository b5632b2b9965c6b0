"""Windows of an image of any size: of the strides, products like max(1, a)*max(1, b), no order of axes was
known, where the sizes are a*b, so the graph ran eagerly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_like_eager, assert_same_bits


def windows_of_blocks(x: Tensor, w: int) -> Tensor:
    b, d, h, v = x.shape
    y = x.view(b, d, h // w, w, v // w, w).permute(0, 1, 3, 2, 5, 4)
    y = (y * 2).reshape(b, d, h, v)
    return y.view(b, d, w, h // w, w, v // w).permute(0, 3, 5, 2, 4, 1).reshape(-1, w * w, d)


def block_and_back(x: Tensor, w: int) -> Tensor:
    b, d, h, v = x.shape
    y = x.view(b, d, h // w, w, v // w, w).permute(0, 2, 4, 3, 5, 1).reshape(-1, w * w, d)
    y = y + y.mean(1, keepdim=True)
    y = y.view(b, h // w, v // w, w, w, d).permute(0, 5, 1, 3, 2, 4).reshape(b, d, h, v)
    return y.exp()


def grid_of_blocks(x: Tensor, w: int) -> Tensor:
    b, d, h, v = x.shape
    y = block_and_back(x, w)
    z = y.view(b, d, w, h // w, w, v // w).permute(0, 3, 5, 2, 4, 1).reshape(-1, w * w, d)
    z = z * z.sum(-1, keepdim=True)
    z = z.view(b, h // w, v // w, w, w, d).permute(0, 5, 3, 1, 4, 2)
    return z.reshape(b, d, h, v) - x


def channels_last(x: Tensor, w: int) -> Tensor:
    b, d, h, v = x.shape
    y = x.permute(0, 2, 3, 1).reshape(b, h // w, w, v // w, w, d).permute(0, 1, 3, 2, 4, 5)
    y = (y * 2).reshape(-1, w, w, d) + 1
    y = y.view(b, h // w, v // w, w, w, d).permute(0, 1, 3, 2, 4, 5).reshape(b, h, v, d)
    return y.view(b, w, h // w, w, v // w, d).permute(0, 5, 2, 1, 4, 3).tanh()


def shuffled_pixels(x: Tensor, w: int) -> Tensor:
    b, d, h, v = x.shape
    y = x.view(b, d, h // w, w, v // w, w).permute(0, 1, 3, 5, 2, 4) * 3
    y = y.reshape(b, d * w * w, h // w, v // w)
    y = torch.relu(y).view(b, d, w, w, h // w, v // w).permute(0, 1, 4, 2, 5, 3)
    return y.reshape(b, d, h, v).view(b, d, w, h // w, w, v // w).sum((2, 4))


def windows_of_a_shift(x: Tensor, w: int) -> Tensor:
    b, d, h, v = x.shape
    y = torch.roll(x, (-1, -1), (2, 3)).view(b, d, h // w, w, v // w, w)
    y = (y.transpose(3, 4) * 2).contiguous().view(b, d, h // w, v // w, w * w)
    return y.transpose(-1, -2).reshape(b, d, w * w, -1).view(b, d, w * w, v // w, h // w)


PROGRAMS = [
    windows_of_blocks,
    block_and_back,
    grid_of_blocks,
    channels_last,
    shuffled_pixels,
    windows_of_a_shift,
]
SHAPES = ((2, 3, 4, 6), (3, 5, 8, 4))


@pytest.mark.in_turn(8, "windows_of_blocks")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_partition(compiler: Callable[..., Any], program: Any, dynamic: bool) -> None:
    def function(x: Tensor) -> Any:
        return program(x, 2)

    compiled = compiler(function, dynamic=dynamic)
    for shape in SHAPES:
        assert_like_eager(compiled, function, torch.randn(shape))
    nothing = torch.randn(0, 3, 4, 6)
    if program not in (block_and_back, grid_of_blocks, windows_of_blocks, windows_of_a_shift):
        assert compiled(nothing).stride() == function(nothing).stride()


@pytest.mark.in_turn(3)
def test_windows_of_any_side(compiler: Callable[..., Any]) -> None:
    compiled = compiler(windows_of_blocks, dynamic=True)
    for shape, side in ((SHAPES[0], 2), (SHAPES[1], 4), ((2, 2, 6, 9), 3)):
        x = torch.randn(shape)
        assert_like_eager(lambda x: compiled(x, side), lambda x: windows_of_blocks(x, side), x)  # noqa: B023


@pytest.mark.in_turn(12)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients(compiler: Callable[..., Any], program: Any, tier: str) -> None:
    def gradient(f: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().requires_grad_()
        y = f(x)
        return y.detach(), torch.autograd.grad(y.square().sum(), x)[0]

    def function(x: Tensor) -> Any:
        return program(x, 2)

    compiled = compiler(function, dynamic=True, options={"tier": tier})
    for shape in SHAPES:
        x = torch.randn(shape)
        assert_like_eager(lambda x: gradient(compiled, x), lambda x: gradient(function, x), x)


def test_rows_that_a_mask_chooses(compiler: Callable[..., Any]) -> None:
    """As many as the data says, and so none too, where max(1, n) is not n."""

    def function(x: Tensor, m: Tensor) -> Tensor:
        y = x[m]
        n = y.shape[0]
        z = (y.view(n, 2, 3).permute(1, 2, 0) * 2).view(2, 3 * n)
        return torch.relu(z.t()).view(3, n, 2)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = compiler(function)
        x = torch.randn(5, 6)
        for m in ([1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]):
            mask = torch.tensor(m, dtype=torch.bool)
            try:
                want = function(x, mask)
            except RuntimeError:
                with pytest.raises(RuntimeError):
                    compiled(x, mask)
                continue
            assert_same_bits(compiled(x, mask), want)
