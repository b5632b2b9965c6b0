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


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_faults_of_any_size(compiler: Callable[..., Any], tier: str) -> None:
    """A check whose index was known to be 0 was left out of kernels of any size."""
    histc = compiler(lambda x: torch.histc(x, 2), dynamic=True, options={"tier": tier})
    with pytest.raises(RuntimeError, match=r"torch\.histc: range of .* is not finite"):
        histc(torch.tensor([1.0, torch.inf, 2.0]))
    diagonal = compiler(torch.diagonal_scatter, dynamic=True, options={"tier": tier})
    with pytest.raises(RuntimeError, match="expected src to have a size equal to the slice of self"):
        diagonal(torch.rand(5, 3), torch.rand(2))
