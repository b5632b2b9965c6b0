"""Attention without dropout draws no random numbers: the backward may compute it again."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F


def test_a_budget_of_attention_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """The cut dropped its result, and the nodes knew it as one that cannot be made again."""

    def fn(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(2):
            q = (x @ w).view(2, 16, 2, 16).transpose(1, 2)
            mixed = F.scaled_dot_product_attention(q, q.sin(), q.cos(), is_causal=True)
            x = x + mixed.transpose(1, 2).reshape(2, 16, 32)
        return x.square().sum()

    torch.manual_seed(0)
    x, w = torch.randn(2, 16, 32), torch.randn(32, 32) / 8
    x.requires_grad_(), w.requires_grad_()
    options = {"tier": "tcc", "strict": True, "products": "own", "memory_budget": 0.0}
    torch._dynamo.reset()
    with caplog.at_level(logging.DEBUG, "dlc"):
        made = torch.autograd.grad(torch.compile(fn, backend="dlc", options=options)(x, w), (x, w))
    assert "functorch partitions" not in caplog.text
    for have, want in zip(made, torch.autograd.grad(fn(x, w), (x, w)), strict=True):
        torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)
