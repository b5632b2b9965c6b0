"""Sizes that come of a float scale: floor(size * 1.7), in float64, as torch computes them."""

import pytest
import torch
import torch.nn.functional as F

import dlc


@pytest.mark.parametrize("scale", [0.29, 0.6, 1.7, 2.0])
def test_interpolate_of_any_size(scale: float) -> None:
    torch._dynamo.reset()
    before = dlc.counters()["graphs"]

    @torch.compile(backend="dlc", dynamic=True, options={"strict": True})
    def f(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x + 1, scale_factor=scale, mode="nearest") * 2

    for n in [10, 100, 7, 20, 30, 40, 50, 60, 70, 80, 90, 99, 101]:
        x = torch.randn(1, 3, n)
        want = F.interpolate(x + 1, scale_factor=scale, mode="nearest") * 2
        torch.testing.assert_close(f(x), want, rtol=0, atol=0)
    assert dlc.counters()["graphs"] == before + 1
