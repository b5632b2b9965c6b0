"""logit(x, eps) with an eps above a half, whose ends cross, had the other end; a size as eps was left out."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_like_eager


@pytest.mark.parametrize("eps", [0.25, 0.75, 1.0, True, None])
@pytest.mark.parametrize("dynamic", [False, True])
def test_ends(compiler: Callable[..., Any], eps: float | None, dynamic: bool) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.logit(x, eps) * 2

    compiled = compiler(function, dynamic=dynamic)
    for n in (2, 33):
        assert_like_eager(compiled, function, torch.linspace(0, 1, n))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_size(compiler: Callable[..., Any], dynamic: bool) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.logit(x, x.shape[0]) * 2

    compiled = compiler(function, dynamic=dynamic)
    for n in (2, 33):
        assert_like_eager(compiled, function, torch.linspace(0, 1, n))
