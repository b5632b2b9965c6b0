"""A tensor without elements, read at an index that no loop changes: the load stood before the loop."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_same_bits


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (2, 0, 3)])
def test_reshaped(shape: tuple[int, ...], tier: str, compiler: Callable[..., Any]) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        flat = (x > 2).reshape(-1)
        return flat.cumsum(0), flat.sum(), flat[:, None].expand(-1, 3).sum(0), flat.cumsum(0).reshape(x.shape)

    compiled = compiler(function, options={"tier": tier})
    x = torch.empty(shape)
    for mine, theirs in zip(compiled(x), function(x), strict=True):
        assert_same_bits(mine, theirs)
