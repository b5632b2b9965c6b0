"""Frozen weights in 8-bit floats: padding of their panels had no constant, or float panels replaced them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dlc.report import collect

DTYPES = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


class Scaled(nn.Module):
    def __init__(self, n: int, k: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n, k).to(dtype), requires_grad=False)
        self.register_buffer("scale", torch.rand(n, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight.float() * self.scale).t()


@pytest.mark.parametrize("n", [256, 250])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_bytes_are_kept(dtype: torch.dtype, n: int) -> None:
    model = Scaled(n, 96, dtype)
    run = torch.compile(model, backend="dlc", options={"freeze": True, "strict": True, "tier": "tcc"})
    with torch.no_grad(), collect() as reports:
        for rows in (3, 40):
            x = torch.randn(rows, 96)
            torch.testing.assert_close(run(x), model(x))
    for report in reports:
        assert report["prepared"][0] <= 1.25 * n * 96
