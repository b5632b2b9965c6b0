"""Operators lay results out by whether torch conjugates an operand when it is read, which ours never are."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import strides

SOLVE = torch.linalg.solve_triangular
SQUARE, SIDE = torch.randn(3, 3, dtype=torch.complex64).triu(), torch.randn(3, 4, dtype=torch.complex64)
NOTHING = torch.zeros(0, 3, 3, dtype=torch.complex64)
ROWS = torch.zeros(0, 3, 3)
CALLS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "from the right": (lambda a, b: SOLVE(a, b, upper=True), (SQUARE, SIDE)),
    "from the left": (lambda a, b: SOLVE(a, b, upper=True, left=False), (SQUARE, SIDE.mT.contiguous())),
    "computed": (lambda a, b: SOLVE((a * 2).mH, b * 2, upper=False), (SQUARE, SIDE)),
    "nothing": (torch.linalg.cholesky, (NOTHING,)),
    "nothing, conjugated": (lambda a: torch.linalg.cholesky(a.mH), (NOTHING,)),
    "nothing, computed": (lambda a: torch.linalg.cholesky(a * 2), (NOTHING,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_layout_of_results_and_gradients(name: str, compiler: Callable[..., Any]) -> None:
    function, operands = CALLS[name]
    found = []
    for run in (compiler(function), function):
        given = [t.clone().requires_grad_() for t in operands]
        made = run(*given)
        found.append([made.detach(), *torch.autograd.grad(made, given, torch.ones_like(made))])
    torch.testing.assert_close(*found)
    assert [strides(t) for t in found[0]] == [strides(t) for t in found[1]]


OF_NOTHING: dict[str, Callable[[Tensor], Tensor]] = {
    "times": lambda x: x * 2,
    "by": lambda x: x / 3,
    "inverse": lambda x: 3 / x,
    "minus": lambda x: 3 - x,
    "greater": lambda x: x > 1,
    "twice": lambda x: x + x,
    "square": lambda x: x**2,
    "with rows": lambda x: x + ROWS,
    "exp": torch.exp,
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "by a square": lambda x: x / torch.ones(3, 3),
}


@pytest.mark.parametrize("name", OF_NOTHING)
def test_layout_of_nothing(name: str, compiler: Callable[..., Any]) -> None:
    """Torch counts empty tensors as contiguous, but not where an operand is a number."""
    x, function = torch.zeros(0, 3, 3).mT, OF_NOTHING[name]
    assert strides(compiler(function)(x)) == strides(function(x))
