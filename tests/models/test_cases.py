"""The functions of the kernel benchmark, which are not timed here but checked."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.cases import CASES, SIZES, Case
from benchmarks.peers import own_code
from tests.tolerance import assert_like_eager


def results(case: Case, run: Callable[..., Any]) -> Callable[..., Sequence[Tensor]]:
    """A function of what a call returns, writes to its arguments, or has as gradients."""

    def call(*args: Tensor) -> Sequence[Tensor]:
        copies = [x.detach().clone().requires_grad_(x.requires_grad) for x in args]
        made = run(*copies)
        if case.train:
            made.backward(torch.ones_like(made))
            return (made, *(x.grad for x in copies))
        return copies if made is None else [made] if isinstance(made, Tensor) else made

    return call


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_case(case: Case, compiler: Callable[..., Any]) -> None:
    compiled = compiler(own_code(case.call), fullgraph=True)
    assert_like_eager(results(case, compiled), results(case, case.call), *case.arguments(SIZES["l1"]))
