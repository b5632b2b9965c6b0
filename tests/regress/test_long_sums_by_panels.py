"""Panels and sums of over 2,048 steps, with symbolic columns: a group had no panel, and memory broke."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_like_eager


def columns_of_panels(x: Tensor, w: Tensor) -> Tensor:
    panels, steps, columns = w.shape
    return torch.einsum("bsk,nk->bsn", x, w.permute(0, 2, 1).reshape(panels * columns, steps))


@pytest.mark.parametrize("steps", [2049, 4096])
def test_columns_that_are_a_symbol(compiler: Callable[..., Any], steps: int) -> None:
    compiled = compiler(columns_of_panels, options={"products": "own"})
    for panels in (40, 41):
        x, w = torch.randn(20, 9, steps)[:, :7], torch.randn(panels, steps, 32)
        torch._dynamo.mark_dynamic(w, 0)
        assert_like_eager(compiled, columns_of_panels, x, w)
