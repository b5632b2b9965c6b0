"""Two sums over rows of no elements that share what they sum: their buffer has no bytes, and had no name."""

import pytest
import torch
from torch import Tensor

import dlc


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_two_sums_of_nothing(shape: tuple[int, ...]) -> None:
    def ratio(x: Tensor) -> Tensor:
        centred = x - x.mean()
        return centred.pow(3).sum() / centred.pow(2).sum()

    x = torch.empty(shape)
    torch.testing.assert_close(dlc.jit(ratio, tier="tcc")(x), ratio(x), equal_nan=True)
