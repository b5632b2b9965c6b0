"""gcc takes an index that is a comparison for a mask of 0 and -1: Note [Indices from comparisons]."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "comparison": lambda a, y: a[(y > 0).long()],
    "truth": lambda a, y: a[y.bool().int()],
    "choice": lambda a, y: a[torch.where(y > 0, 1, 0)],
    "bounded": lambda a, y: a[(y > 0).long().clamp(0, 1)],
    "other one": lambda a, y: a[1 - (y > 0).long()] + a[(y > 0).long() * 2],
    "sum of two": lambda a, y: a[(y > 0).long() + (y > 1).long()],
    "rows": lambda a, y: a.view(-1, 4)[(y > 0).long()].sum(1),
    "gather": lambda a, y: torch.gather(a, 0, (y > 0).long()),
    "reduced": lambda a, y: a[(y > 0).long()].sum(),
}


@pytest.mark.parametrize("tier", ["tcc", pytest.param("gcc", marks=pytest.mark.in_turn(4))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float64, torch.uint8], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name: str, dtype: torch.dtype, tier: str, compiler: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    a, y = torch.arange(1, 97).to(dtype), torch.randn(96) * 2
    run = compiler(FUNCTIONS[name], options={"tier": tier})
    for y in (torch.randn(96) * 2, torch.randint(-1, 3, (96,)), torch.randint(0, 3, (96,)).to(torch.uint8)):
        assert torch.equal(run(a, y), FUNCTIONS[name](a, y)), y.dtype
