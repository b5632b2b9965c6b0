"""A small memory budget bought products that the backward made again, once these were kernels."""

import pytest
import torch
from torch import nn

import dlc


def saved(model: nn.Module, x: torch.Tensor, products: str, budget: float) -> str:
    report = str(dlc.explain(model, x, options={"products": products, "memory_budget": budget}))
    (line,) = (line.strip() for line in report.splitlines() if line.strip().startswith("saves"))
    return line


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("budget", [0.5, 0.0])
def test_none_is(budget: float) -> None:
    model = nn.Sequential(
        nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.GELU(), nn.Linear(64, 64)
    ).train()
    x = torch.randn(128, 64)
    assert saved(model, x, "auto", budget) == saved(model, x, "library", budget)
