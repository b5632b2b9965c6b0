"""A kernel of rows of a size that is a name is two: rows of up to 15 elements have their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import dlc

ROWS = {
    "sum": lambda x: x.sum(-1),
    "softmax": lambda x: torch.softmax(x * 2, -1),
    "layer norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "argmax": lambda x: x.argmax(-1),
    "two results": lambda x: (x.amax(-1), x / x.norm(dim=-1, keepdim=True)),
    "one long row": lambda x: torch.relu(x * 2 + 1),
    "columns": lambda x: (x - x.mean(0)) / x.norm(dim=0),
    "an operand for each column": lambda x: torch.relu(x * x[0] + x[1]),
    "side by side": lambda x: torch.cat([x, x * 2], -1),
    "distances": lambda x: (x[:, None] - x[None, :2]).square().sum(-1),
    "two rows": lambda x: (x.sum(-1), x.t().contiguous().sum(-1)),
}


def bits(result: Any) -> list[Tensor]:
    parts = result if isinstance(result, tuple) else (result,)
    return [t.view(torch.int32) if t.dtype == torch.float32 else t for t in parts]


@pytest.mark.parametrize("tier", ["tcc", pytest.param("gcc", marks=pytest.mark.in_turn(8))])
@pytest.mark.parametrize("name", ROWS)
def test_every_size(name: str, tier: str, compiler: Callable[..., Any]) -> None:
    """A row's bits depend on its size alone: they are those of a program that knows the size."""
    fn, options = ROWS[name], {"tier": tier}
    run = compiler(fn, dynamic=True, options=options)
    run(torch.randn(7, 40))
    inputs = [torch.randn(300, n) for n in (2, 3, 4, 8, 14, 15, 16, 17, 32, 33, 64)]
    inputs += [torch.randn(n, 300) for n in (2, 15, 16)]
    before = dlc.counters()["graphs"]
    got = [run(x) for x in inputs]
    assert dlc.counters()["graphs"] == before
    for x, y in zip(inputs, got, strict=True):
        torch.testing.assert_close(y, fn(x))
        torch._dynamo.reset()
        known = compiler(fn, dynamic=False, options=options)(x)
        assert all(map(torch.equal, bits(y), bits(known))), x.shape


def test_gradients(compiler: Callable[..., Any]) -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(F.layer_norm(x, (x.shape[-1],)), y, reduction="sum")

    run = compiler(fn, dynamic=True)
    for n in (40, 5, 15, 16, 3, 2):  # no two elements of a row are almost equal: eager's digits would be few
        x, y = (torch.rand(100, n) + 2 * torch.arange(n)).requires_grad_(), torch.randint(n, (100,))
        (got,) = torch.autograd.grad(run(x, y), x)
        torch.testing.assert_close(got, torch.autograd.grad(fn(x, y), x)[0])


def test_the_plan_has_both(compiler: Callable[..., Any], capfd: pytest.CaptureFixture[str]) -> None:
    """Where the size is known, or cannot be short, there is one."""

    def launches(name: str, low: int, dynamic: bool) -> int:
        torch._dynamo.reset()
        x = torch.randn(300, 40)
        if dynamic:
            torch._dynamo.mark_dynamic(x, 1, min=low, max=4096)
        compiler(ROWS[name], options={"dump": "plan", "tier": "tcc"})(x)
        return len(re.findall(r"^ +launch", capfd.readouterr().err, re.M))

    assert launches("softmax", 16, dynamic=True) == launches("softmax", 2, dynamic=False) == 1
    assert launches("softmax", 2, dynamic=True) == 2
    assert launches("an operand for each column", 16, dynamic=True) == 1
    assert launches("an operand for each column", 2, dynamic=True) == 2
    assert launches("one long row", 2, dynamic=True) == 1
