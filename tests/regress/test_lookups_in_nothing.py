"""An index into a tensor whose size turns out to be 0 has no element to stand in for it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_index_into_nothing(tier: str, compiler: Callable[..., Any]) -> None:
    def fn(x: Tensor, i: Tensor) -> Tensor:
        return x[x > 0][i] * 2

    run = compiler(fn, fullgraph=True, options={"tier": tier})
    x, i = torch.tensor([3.0, -1.0, 5.0]), torch.tensor([1, 0, 1, 1])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert run(x, i).tolist() == [10, 6, 10, 10]
        with pytest.raises(IndexError):
            run(-torch.ones(3), i)
        assert run(x, i).tolist() == [10, 6, 10, 10]
