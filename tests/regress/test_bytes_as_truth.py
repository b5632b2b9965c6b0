"""Truth values whose bytes are not 0 and 1, as views of bytes and NumPy have them, were numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda a, b: a.sum() + b.view(6, 6).sum(0),
    "running sum": lambda a, b: (a.cumsum(0), b.cummax(0)[0]),
    "both": lambda a, b: a & b,
    "one of them": lambda a, b: a ^ b,
    "columns": lambda a, b: a.view(6, 6).t() & b.view(6, 6),
    "equal": lambda a, b: (a == b, a == True, a < b),  # noqa: E712
    "any and all": lambda a, b: (a.any(), a.view(6, 6).all(1), b.view(6, 6).amax(0), torch.maximum(a, b)),
    "whole": lambda a, b: (a.long(), a.to(torch.uint8), a + 1, a[::2].int() + 2),
    "floating": lambda a, b: (a.float(), b.half(), a * 3.0, a.to(torch.complex64)),
    "side by side": lambda a, b: (torch.cat([a, b]).all(), torch.cat([a, b])[a.int().cumsum(0)] & b),
    "padded": lambda a, b: F.pad(a, (2, 3)).flip(0)[:36] ^ b,
    "looked up": lambda a, b: (a[b.long()] & b, a[b.long()].sum()[None], (a[b.long()] ^ b).any()),
    "greatest": lambda a, b: a.clone().scatter_reduce(0, torch.arange(36) // 2, b, "amax") & b,
    "choice": lambda a, b: (torch.where(a, 1.0, 2.0), torch.where(a, b, ~b) & a),
}


@pytest.mark.parametrize("tier", ["tcc", pytest.param("gcc", marks=pytest.mark.in_turn(4))])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name: str, dynamic: bool, tier: str, compiler: Callable[..., Any]) -> None:
    a = torch.tensor([0, 1, 2, 255] * 9, dtype=torch.uint8).view(torch.bool)
    b = torch.tensor([1, 2, 4, 0] * 9, dtype=torch.uint8).view(torch.bool)

    def bytes_of(result: Any) -> list[Tensor]:
        return [
            t.contiguous().view(torch.uint8) for t in (result if isinstance(result, tuple) else (result,))
        ]

    mine = bytes_of(compiler(FUNCTIONS[name], dynamic=dynamic, options={"tier": tier})(a, b))
    assert all(map(torch.equal, mine, bytes_of(FUNCTIONS[name](a, b))))
