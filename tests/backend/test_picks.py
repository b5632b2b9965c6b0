"""A sum of one element chosen by its index is that element, and the same from both tiers."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor


def entropy(x: Tensor, at: Tensor) -> Tensor:
    return F.cross_entropy(x, at, reduction="none", ignore_index=3)


def chosen(x: Tensor, at: Tensor) -> Tensor:
    """Where no element is chosen the sum is 0; the negative zero of a choice too."""
    return torch.where(torch.arange(x.shape[1]) == at[:, None] - 2, x, 0.0).sum(1)


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("width", [40, 1024, 2500])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("function", [entropy, chosen])
def test_one_element_of_a_row(function: object, dtype: torch.dtype, width: int, dynamic: bool) -> None:
    x = torch.randn(70, width)
    at = torch.arange(70) % min(width, 50)
    x[5, 3], x[6], x[7, 4], x[7, 9] = -0.0, torch.inf, -torch.inf, torch.nan
    x = x.to(dtype)
    found = []
    for tier in ("tcc", "gcc"):
        torch._dynamo.reset()
        found.append(torch.compile(function, backend="dlc", dynamic=dynamic, options={"tier": tier})(x, at))
    assert torch.equal(found[0].isnan(), found[1].isnan())
    assert torch.equal(found[0].nan_to_num(), found[1].nan_to_num())
    assert torch.equal(found[0].signbit() & ~found[0].isnan(), found[1].signbit() & ~found[1].isnan())
    torch.testing.assert_close(found[1], function(x, at), equal_nan=True)
