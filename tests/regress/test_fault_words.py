"""What a gather out of range says was found by the name of the node that its kernel ends with."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_words_of_a_gather_in_a_larger_kernel(compiler: Callable[..., Any], tier: str) -> None:
    def unpool(x: Tensor, at: Tensor) -> Tensor:
        return F.max_unpool2d(x, at, 2) * 2 + 1

    def count(x: Tensor, at: Tensor) -> Tensor:
        return torch.histc(x, 4) * 2 + 1

    x, at = torch.rand(1, 2, 3, 3), torch.full((1, 2, 3, 3), 99)
    with pytest.raises(RuntimeError, match="Found an invalid max index"):
        compiler(unpool, options={"tier": tier})(x, at)
    with pytest.raises(RuntimeError, match=r"torch\.histc: range of .* is not finite"):
        compiler(count, options={"tier": tier})(x / 0, at)
