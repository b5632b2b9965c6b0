"""A copy in rows, of a result with its channels innermost, is what an operator of eager's takes."""

import torch
from torch import Tensor
from torch.nn import functional

from tests.tolerance import strides


def test_its_results_lie_as_eager_s() -> None:
    image = torch.randn(2, 8, 6, 6).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(6, 8, 3, 3)

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.relu()
        return y, functional.conv2d(y.contiguous(), weight)

    options = {"strict": True, "products": "library"}
    ours, eager = torch.compile(f, backend="dlc", options=options)(image), f(image)
    assert list(map(strides, ours)) == list(map(strides, eager))
    torch.testing.assert_close(ours, eager)
