"""A batch norm of a part of an image with its channels innermost makes such an image."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.tolerance import strides


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dynamic", [True, False])
def test_it_lies_as_eager_s(training: bool, dynamic: bool) -> None:
    image = torch.randn(2, 6, 8, 9).contiguous(memory_format=torch.channels_last).requires_grad_()

    def f(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = x[..., 1:], x[:, 1:], x[:, :, ::2]
        return tuple(functional.batch_norm(p, *p.new_ones(2, p.shape[1]), training=training) for p in parts)

    compiled = torch.compile(f, backend="dlc", dynamic=dynamic, options={"strict": True})
    ours, eager = compiled(image), f(image)
    assert list(map(strides, ours)) == list(map(strides, eager))
    torch.testing.assert_close(ours, eager)
    of = [torch.randn_like(y) for y in eager]
    actual, expected = (torch.autograd.grad(made, image, of)[0] for made in (ours, eager))
    torch.testing.assert_close(actual, expected)
