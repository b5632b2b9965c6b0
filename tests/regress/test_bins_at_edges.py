"""histc of a given range: what stands on the edge of a bin was counted in the bin below, and a range without
an end was not refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch


def test_edges(compiler: Callable[..., Any]) -> None:
    x = torch.arange(300.0) * 0.1
    compiled = compiler(lambda x: torch.histc(x, 29, 0.0, 14.5))
    torch.testing.assert_close(compiled(x), torch.histc(x, 29, 0.0, 14.5), rtol=0, atol=0)


def test_no_end(compiler: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="is not finite"):
        compiler(lambda x: torch.histc(x, 4, -torch.inf, 3))(torch.ones(3))
