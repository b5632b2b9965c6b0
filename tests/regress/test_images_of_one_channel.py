"""Of an image of one channel, or of one point, only strides that address nothing tell operators how it lies.

Eager's elementwise operations make rows of what is contiguous; torch's fake tensors keep such strides."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.tolerance import strides

LAST = torch.channels_last

#: Images that are channels last, and contiguous as well.
IMAGES = {
    "channel": ((2, 1, 10, 6), (60, 1, 6, 1)),
    "channel of one image": ((1, 1, 10, 6), (60, 1, 6, 1)),
    "column": ((2, 1, 10, 1), (10, 1, 1, 1)),
    "point": ((2, 4, 1, 1), (4, 1, 4, 4)),
    "volume": ((2, 1, 4, 3, 5), (60, 1, 15, 5, 1)),
}
MADE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "silu": functional.silu,
    "elu": functional.elu,
    "leaky_relu": functional.leaky_relu,
    "hardtanh": functional.hardtanh,
    "square": lambda x: x**2,
    "number": lambda x: x * 2,
    "again": lambda x: x + x.exp(),
    "masked": lambda x: x.masked_fill(x > 0.5, 0.0),
    "in place": lambda x: x.clone().relu_(),
    "view": lambda x: torch.relu(x)[:, :, -3:],
    "norm": lambda x: functional.batch_norm(x, *x.new_ones(2, x.shape[1])),
    "groups": lambda x: functional.group_norm(x, 1),
    "layers": lambda x: functional.layer_norm(x, x.shape[1:]),
    "by name": lambda x: functional.relu6(input=x),
}


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_what_is_made_of_it(name: str, image: str, dynamic: bool, compiler: Callable[..., Any]) -> None:
    shape, steps = IMAGES[image]

    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = MADE[name](x)
        return y, torch.cat([y, y], 1), torch.cat([x, y], 2), y.repeat(1, 2, *[1] * (x.dim() - 2)) * 2

    x = torch.rand(shape).as_strided(shape, steps)
    made, eager = compiler(f, dynamic=dynamic)(x), f(x)
    assert list(map(strides, made)) == list(map(strides, eager))
    torch.testing.assert_close(made, eager)


@pytest.mark.parametrize("gradients", [False, True])
def test_convolution(gradients: bool, compiler: Callable[..., Any]) -> None:
    convolution = torch.nn.Conv2d(3, 1, 3, padding=1).to(memory_format=LAST)

    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = convolution(x)
        z = torch.relu(y)
        return y * 1, z, torch.cat([y, z], 1), torch.cat([z, z], 1), y + z, y

    x = torch.randn(2, 3, 10, 6).to(memory_format=LAST)
    with torch.set_grad_enabled(gradients):
        made, eager = compiler(f)(x), f(x)
    assert list(map(strides, made)) == list(map(strides, eager))
    assert made[1].stride() == eager[1].stride() == (60, 60, 6, 1)
    torch.testing.assert_close(made, eager)
