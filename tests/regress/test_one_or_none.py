"""A part of a cat that has one element or none: the loop over it has no index by which there is one."""

import torch
from torch import Tensor

import dlc


def test_gradient_of_as_many_chunks_as_elements() -> None:
    """The last of five chunks has s - 4 elements, 0 or 1. It was read from beyond the list of parts."""

    def chunks(x: Tensor) -> tuple[Tensor, ...]:
        return x.chunk(5, 1)

    x = torch.randn(5, 5, 5, dtype=torch.float64, requires_grad=True)
    before = dlc.counters()["eager_graphs"]
    results = torch.compile(chunks, backend="dlc", dynamic=True)(x)
    seeds = [torch.randn_like(r) for r in results]
    (got,) = torch.autograd.grad(results, x, seeds)
    assert torch.equal(got, torch.cat(seeds, 1))
    assert dlc.counters()["eager_graphs"] == before
