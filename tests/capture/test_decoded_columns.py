"""A layer whose weight is decoded in each call: values, gradients of the activation, bits of any rows."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn

ROWS, COLUMNS = 70, 512


class Layer(nn.Module):
    """x by a weight of few bits: `form` says which."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        codes = torch.randint(0, 255, (ROWS, COLUMNS // 2 if form == "u4" else COLUMNS), dtype=torch.uint8)
        made = codes if form == "u4" else codes.view(torch.int8)
        made = torch.randn(ROWS, COLUMNS).to(torch.bfloat16) if form == "bf16" else made
        self.w = nn.Parameter(made, requires_grad=False)
        self.s = nn.Parameter(torch.rand(ROWS, COLUMNS // 32) + 0.1, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "bf16":
            return x @ self.w.to(torch.float32).t()
        if self.form == "i8":
            return x @ (self.w.to(torch.float32) * self.s[:, :1]).t()
        pairs = torch.stack([self.w & 15, self.w >> 4], dim=-1).reshape(ROWS, -1, 32)
        return x @ ((pairs.to(torch.float32) - 8) * self.s[..., None]).reshape(ROWS, -1).t()


def near(ours: Tensor | None, theirs: Tensor | None) -> None:
    """To within the roundings of sums of 512 terms, of the largest of them."""
    assert ours is not None and theirs is not None
    assert ours.shape == theirs.shape
    assert not ours.numel() or (ours - theirs).abs().max() <= 2e-6 * theirs.abs().max()


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("form", ["i8", "u4", "bf16"])
def test_values_and_bits_of_rows(form: str, freeze: bool) -> None:
    layer = Layer(form)
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="dlc", options={"freeze": freeze, "tier": "tcc"}, dynamic=None)
    whole = torch.randn(70, 2 * COLUMNS)[:, ::2]
    with torch.no_grad():
        alone = compiled(whole[:1])
        for rows in (0, 5, 14, 15, 33, 70):
            x = whole[:rows]
            near(compiled(x), layer(x))
            assert rows == 0 or torch.equal(compiled(x)[:1], alone), rows


def test_gradient_of_the_activation() -> None:
    layer = Layer("i8")
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="dlc", options={"tier": "tcc"})
    given, ours = (torch.randn(7, COLUMNS, generator=torch.manual_seed(1)).requires_grad_() for _ in range(2))
    by = torch.randn(7, ROWS)
    (layer(given) * by).sum().backward()
    (compiled(ours) * by).sum().backward()
    near(ours.grad, given.grad)
