"""The C compiler's tier runs rows two at a time: with the bits of rows alone, and none is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

ROWS: dict[str, Callable[[Tensor], Any]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "layer norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "two results": lambda x: (x.var(-1), x / x.norm(dim=-1, keepdim=True)),
    "rows in a row": lambda x: torch.softmax(x.unflatten(-1, (4, x.shape[-1] // 4)), -1),
}


def bits(result: Any) -> list[Tensor]:
    return [t.view(torch.int32) for t in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("name", ROWS)
def test_bits(name: str, compiler: Callable[..., Any]) -> None:
    """Of one block and of several, with a rest and without; past 2**18 elements rows go one by one."""
    inputs = [torch.randn(r, n) for r in (1, 2, 3, 7) for n in (36, 1024, 1100, 5120)]
    inputs.append(torch.randn(301, 1024))
    made = []
    for tier in ("tcc", "gcc"):
        torch._dynamo.reset()
        run = compiler(ROWS[name], dynamic=True, options={"tier": tier})
        run(torch.randn(5, 48))
        made.append([bits(run(x)) for x in inputs])
    for x, a, b in zip(inputs, *made, strict=True):
        assert all(map(torch.equal, a, b)), x.shape
        wanted = ROWS[name](x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for y, z in zip(b, wanted, strict=True):
            torch.testing.assert_close(y.view(torch.float32), z)
