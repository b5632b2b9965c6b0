"""Torch guards that half of a size is even before it guards that the size is. Each guard was read once, in
that order, so that the first one said nothing, and eager's operator joined what was halved and doubled."""

from __future__ import annotations

import torch
from torch import Tensor

import dlc


def doubled(x: Tensor) -> Tensor:
    half = x[:, : x.shape[1] // 2]
    quarter = half[:, : half.shape[1] // 2]
    half = half + torch.cat([quarter, quarter], 1)
    return x + torch.cat([half, half], 1)


def test_a_size_that_is_halved_twice_is_a_multiple_of_four() -> None:
    x = torch.randn(3, 16)
    torch._dynamo.mark_dynamic(x, 1)
    compiled = torch.compile(doubled, backend="dlc")
    (graph,) = dlc.explain(compiled, x).graphs
    assert [step.kind for step in graph.steps] == ["kernel"] * len(graph.steps)
    for size in (16, 24, 32):
        x = torch.randn(3, size)
        assert torch.equal(compiled(x), doubled(x))
