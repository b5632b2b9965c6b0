"""Tuning copied what a kernel reads from a workspace that was not there yet: the process ended."""

from pathlib import Path

import torch
from torch import Tensor

from tests.tolerance import assert_like_eager


def sums(x: Tensor, y: Tensor) -> Tensor:
    a = torch.softmax(x * 2 + y, -1)
    b = a.sum(0)
    return (a * b).sum(1)


def test_values_in_the_workspace(tmp_path: Path) -> None:
    options = {"tune": True, "tune_budget": 0.5, "cache": str(tmp_path), "strict": True}
    x = torch.randn(64, 300)
    assert_like_eager(torch.compile(sums, backend="dlc", options=options), sums, x, x)
