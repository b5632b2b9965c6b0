"""A region of vmap with gradients inside ran alone with recording off: its gradients were zeros."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._C._functorch import peek_interpreter_stack

from tests.tolerance import assert_like_eager

FUNCTIONS = {
    "grad": lambda x: torch.func.vmap(torch.func.grad(lambda a: (a * a.sin()).sum()))(x),
    "writes": lambda x: torch.func.vmap(torch.func.grad(lambda a: (a * a.clone().mul_(2)).sum()))(x),
    "jacrev": lambda x: torch.func.jacrev(lambda a: a.sin() * 2)(x),
    "jacfwd": lambda x: torch.func.jacfwd(lambda a: a.sin() * 2)(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str, compiler: Callable[..., Any]) -> None:
    f: Callable[[Tensor], Tensor] = FUNCTIONS[name]
    assert torch.is_grad_enabled()
    assert_like_eager(compiler(f), f, torch.randn(4, 6))
    assert peek_interpreter_stack() is None, "a level of vmap or grad is left behind"
