"""A copy in rows, of a result with its channels innermost, is what an operator of eager's takes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.tolerance import strides

WEIGHT = torch.randn(6, 8, 3, 3)


def returned(x: Tensor) -> tuple[Tensor, ...]:
    y = x.relu()
    return y, functional.conv2d(y.contiguous(), WEIGHT)


def with_a_view(x: Tensor) -> tuple[Tensor, ...]:
    y = x.relu()
    return y[:, 1:5], y, functional.conv2d(y.contiguous(), WEIGHT)


def written_to_later(x: Tensor) -> tuple[Tensor, ...]:
    y = x.relu()
    z = y.contiguous()
    made = functional.conv2d(z, WEIGHT)
    z.mul_(2)
    return y, z, made


@pytest.mark.parametrize("f", [returned, with_a_view, written_to_later])
def test_its_results_lie_as_eager_s(f: Callable[[Tensor], tuple[Tensor, ...]]) -> None:
    image = torch.randn(2, 8, 6, 6).contiguous(memory_format=torch.channels_last)
    options = {"strict": True, "products": "library"}
    ours, eager = torch.compile(f, backend="dlc", options=options)(image), f(image)
    assert list(map(strides, ours)) == list(map(strides, eager))
    torch.testing.assert_close(ours, eager)
