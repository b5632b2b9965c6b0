"""A chain of a convolution's sum that began within a row of taps was not found to be in runs: no compile."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_sums_of_more_than_a_chain(tier: str, compiler: Callable[..., Any]) -> None:
    x = torch.randn(1, 48, 12, 12).to(memory_format=torch.channels_last)
    w = torch.randn(64, 48, 3, 3).to(memory_format=torch.channels_last)
    run = compiler(
        lambda x: F.conv2d(x, w, dilation=2), options={"products": "own", "tier": tier, "strict": True}
    )
    want = F.conv2d(x.double(), w.double(), dilation=2)
    torch.testing.assert_close(run(x).double(), want, rtol=1e-5, atol=1e-4)
