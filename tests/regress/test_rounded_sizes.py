"""Sizes that come of quotients, logarithms, roots and powers of sizes: such graphs ran eagerly as a whole."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dlc.report import collect

SIZES: dict[str, Callable[[int], int]] = {
    "ceil of a quotient": lambda n: math.ceil((4 + n % 2) / 2),
    "floor of a quotient": lambda n: math.floor(n / 3),
    "a quotient cut": lambda n: int(n / 4),
    "ceil of what is negative": lambda n: -math.ceil(-n / 2),
    "ceil of two sizes": lambda n: math.ceil(n / (n % 3 + 1)),
    "twice the ceil": lambda n: math.ceil(n / 2) * 2,
    "rounded": lambda n: round(n / 3),
    "ceil of a half": lambda n: math.ceil(n * 0.5),
    "cut below zero": lambda n: -int(-n / 3),
    "root": lambda n: int(math.sqrt(n)),
    "power of a half": lambda n: int(n**0.5),
    "logarithm": lambda n: math.ceil(math.log2(n)),
    "power of a logarithm": lambda n: 2 ** math.ceil(math.log2(n)),
    "up to a power of two": lambda n: 2 ** math.ceil(math.log2(n)) - n,
    "power of three": lambda n: 3 ** (n // 8),
    "shift": lambda n: 1 << (n // 8),
}  # fmt: skip
IN_WHOLE_NUMBERS = list(SIZES)[:6]
COUNTS = (8, 9, 16, 17, 11)


@pytest.mark.parametrize("name", SIZES)
def test_padded(name: str) -> None:
    torch._dynamo.reset()

    def function(x: Tensor) -> Tensor:
        return F.pad(x + 1, (1, SIZES[name](x.shape[0]))) * 2

    options = {"strict": True, "tier": "tcc"}
    with torch.no_grad(), collect() as reports:
        compiled = torch.compile(function, backend="dlc", dynamic=True, options=options)
        for n in COUNTS:
            x = torch.randn(n)
            torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0)
    if name in IN_WHOLE_NUMBERS:
        assert all(not report.get("calls") for report in reports)


@pytest.mark.parametrize("name", SIZES)
def test_gradients(name: str) -> None:
    torch._dynamo.reset()

    def function(x: Tensor) -> Tensor:
        return F.pad(x.sin(), (1, SIZES[name](x.shape[0]))).square()

    compiled = torch.compile(function, backend="dlc", dynamic=True, options={"strict": True, "tier": "tcc"})
    for n in COUNTS:
        mine = torch.randn(n, requires_grad=True)
        theirs = mine.detach().clone().requires_grad_()
        got, want = compiled(mine), function(theirs)
        torch.testing.assert_close(got, want)
        got.sum().backward()
        want.sum().backward()
        torch.testing.assert_close(mine.grad, theirs.grad)
