"""What operators take inside of their calls: asked of torch's memory profiler."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import dlc

OPTIONS = {"tier": "tcc", "strict": True}


def sorts(x: Tensor) -> Tensor:
    return torch.sort(x * 2, dim=0)[0].relu()


@pytest.mark.in_turn(3)
def test_the_peak_counts_it() -> None:
    """Along an axis that is not the last one the operator sorts rows of its own, one by one."""
    (graph,) = dlc.explain(sorts, torch.randn(512, 64), options=OPTIONS).graphs
    assert graph.taken["inside"] > 0
    assert "inside of a call: at most" in str(dlc.explain(sorts, torch.randn(512, 64), options=OPTIONS))


@pytest.mark.in_turn(3)
def test_a_graph_without_calls_takes_nothing_inside() -> None:
    (graph,) = dlc.explain(torch.relu, torch.randn(512, 64), options=OPTIONS).graphs
    assert graph.taken["inside"] == 0


@pytest.mark.in_turn(3)
def test_beside_another_profiler_nothing_is_asked() -> None:
    with torch.profiler.profile() as profiler:
        (graph,) = dlc.explain(sorts, torch.randn(512, 64), options=OPTIONS).graphs
    assert graph.taken["inside"] == 0
    assert any("sort" in event.key for event in profiler.key_averages())
