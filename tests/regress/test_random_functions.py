"""Functions that draw random numbers run as eager's in a graph that is taken directly, in eager's order."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dlc.report import collect

X = torch.rand(4, 6, generator=torch.Generator().manual_seed(2))

CASES: dict[str, Callable[[Tensor], Any]] = {
    "uniform and normal": lambda x: (torch.rand(4, 6) + x, torch.randn(6) * x),
    "whole numbers": lambda x: torch.randint(0, 5, (4, 6)) + x,
    "like a transposed one": lambda x: (torch.rand_like(x.t()), torch.randn_like(x), x * 2),
    "an order": lambda x: x[torch.randperm(4)] + 1,
    "dropout": lambda x: F.dropout(x * 2, 0.5) + torch.rand(6),
    "by probabilities": lambda x: x.bernoulli() + torch.bernoulli(x) + torch.multinomial(x, 6),
    "around means": lambda x: torch.normal(x, 1.0) + torch.poisson(x * 3),
    "one that is not used": lambda x: (torch.rand(3), torch.rand(4, 6) + x)[1],
}


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_directly(name: str, dynamic: bool | None) -> None:
    function = CASES[name]
    compiled = torch.compile(function, backend="dlc", dynamic=dynamic, options={"strict": True})
    with torch.no_grad(), collect() as reports:
        for seed in (1, 2):
            torch.manual_seed(seed)
            mine, left = compiled(X), torch.rand(1)
            torch.manual_seed(seed)
            torch.testing.assert_close((mine, left), (function(X), torch.rand(1)), check_stride=True)
    assert [r["kind"] for r in reports] == ["direct"]


def test_type() -> None:
    """A cast under another name."""
    with torch.no_grad(), collect() as reports:
        compiled = torch.compile(lambda x: (x.type(torch.float64), x.type(torch.int32)), backend="dlc")
        torch.testing.assert_close(compiled(X), (X.double(), X.int()))
    assert [r["kind"] for r in reports] == ["direct"]
