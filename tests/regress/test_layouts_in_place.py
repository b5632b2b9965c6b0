"""What is written in place keeps its layout, also where AOTAutograd has the operation out of place."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.tolerance import strides

IMAGES = {
    "images": ((2, 4, 5, 6), (120, 1, 24, 4)),
    "one channel": ((2, 1, 10, 6), (60, 1, 6, 1)),
    "points": ((2, 4, 1, 1), (4, 1, 4, 4)),
}
MADE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu_": lambda x: (x * 1.5).clone().relu_(),
    "by its name": lambda x: torch.relu_(input=x.clone()),
    "inplace": lambda x: functional.silu(x.clone(), True),
    "add": lambda x: x.clone().add_(x),
    "masked": lambda x: x.clone().masked_fill_(x > 0.5, 0.0),
    "parts": lambda x: functional.celu(x.clone(), inplace=True),
    "out of place": lambda x: torch.relu(x.clone().relu_()),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("gradients", [False, True])
def test_what_is_made_of_it(name: str, image: str, gradients: bool, compiler: Callable[..., Any]) -> None:
    shape, steps = IMAGES[image]

    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = MADE[name](x)
        return y, torch.cat([y, y], 1), torch.cat([y, y], 2)

    x = torch.rand(shape).as_strided(shape, steps)
    options = {} if gradients else {"capture": "aot"}
    made, eager = compiler(f, options=options)(x.requires_grad_(gradients)), f(x)
    assert list(map(strides, made)) == list(map(strides, eager))
    torch.testing.assert_close(made, eager)
    if gradients:
        slopes = [torch.autograd.grad(torch.cat([r.flatten() for r in y]).sum(), x)[0] for y in (made, eager)]
        torch.testing.assert_close(*slopes)
