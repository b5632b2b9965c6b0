"""Frozen codes with an axis of one beside the rows: the prepared order of panels kept only two axes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dlc  # noqa: F401


class Decoded(nn.Module):
    codes: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", (torch.arange(64 * 12) % 251 - 125).to(torch.int8).reshape(1, 64, 12))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.codes.float().transpose(1, 2)


def test_an_axis_of_one() -> None:
    model = Decoded()
    x = torch.arange(36).reshape(1, 3, 12).float()
    run = torch.compile(model, backend="dlc", options={"freeze": True, "strict": True, "tier": "tcc"})
    with torch.no_grad():
        assert torch.equal(run(x), model(x))
