"""Rows that are a few at a time in memory, as the steps of sequences are, become the rows of one product."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dlc.report import collect
from tests.tolerance import assert_same_bits

STEPS = 100


def by_steps(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Of each step all sequences, as a recurrent layer wants its input."""
    return F.linear(x.transpose(0, 1), w, b)


@pytest.mark.parametrize("batch", [2, 8, 13])
def test_they_are_copied_and_have_the_same_bits(batch: int, compiler: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    x, w, b = torch.randn(batch, STEPS, 96), torch.randn(200, 96), torch.randn(200)
    results = []
    for tier in ("tcc", "gcc"):
        torch._dynamo.reset()
        with collect() as reports, torch.no_grad():
            results.append(compiler(by_steps, options={"tier": tier, "strict": True})(x, w, b))
        (report,) = reports
        (height,) = re.findall(r"for \w+ in ([^:]*?), \w+ in [^:]*: .* micro", report["loops"])
        assert height != str(batch)
    steps = x.transpose(0, 1).contiguous().transpose(0, 1)
    with torch.no_grad():
        results.append(compiler(by_steps, options={"tier": "tcc", "strict": True})(steps, w, b))
    for result in results[1:]:
        assert_same_bits(result, results[0])
    torch.testing.assert_close(results[0], by_steps(x, w, b), rtol=1e-4, atol=1e-4)
