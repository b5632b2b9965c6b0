"""Operators on lists of tensors are taken apart: no call is left, and each overload is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._ops import OpOverload

from dlc import foreach
from dlc.report import collect
from tests.tolerance import assert_like_eager, assert_program, named

SIZES = ((3, 4), (5,), (3, 4), ())


def arguments(overload: OpOverload) -> list[Any]:
    """Lists of tensors with values in 0.25 .. 0.75, where all these functions are smooth, and numbers."""
    made: list[Any] = []
    for a in overload._schema.arguments:
        kind = str(a.type)
        if kind == "List[Tensor]":
            made.append([0.25 + torch.rand(s) / 2 for s in SIZES])
        elif kind == "List[number]":
            made.append([0.5 + 0.25 * k for k in range(len(SIZES))])
        elif kind == "Tensor":
            made.append(torch.rand(()) + 0.5)
        elif kind == "number" and not a.kwarg_only:
            made.append(0.75)
    return made


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("overload", foreach.decompositions(), ids=str)
def test_each_overload(overload: OpOverload, compiler: Callable[..., Any]) -> None:
    args = arguments(overload)
    counts = [len(a) if isinstance(a, list) and isinstance(a[0], Tensor) else 0 for a in args]
    tensors = [t for a, n in zip(args, counts, strict=True) if n for t in a]

    def run(*given: Tensor) -> list[Tensor]:
        left = iter(given)
        lists = ([next(left) for _ in range(n)] if n else a for a, n in zip(args, counts, strict=True))
        return overload(*lists)

    with collect() as reports:
        assert_like_eager(compiler(run, fullgraph=True, options={"tier": "tcc"}), run, *tensors)
    assert [report["calls"] for report in reports] == [[]]


def weights_after(steps: int, compiled: bool, dtype: torch.dtype) -> dict[str, Tensor]:
    torch.manual_seed(0)
    weights = [torch.randn(s).to(dtype).requires_grad_() for s in SIZES]
    optimiser = torch.optim.Adam(weights, foreach=True)
    step = torch.compile(optimiser.step, backend="dlc") if compiled else optimiser.step
    for _ in range(steps):
        for w in weights:
            w.grad = w.detach().sin()
        step()
    return named(tuple(w.detach() for w in weights))


def test_adam() -> None:
    """Steps of torch's optimiser, compiled: the weights are as exact as eager's."""
    torch._dynamo.reset()
    exact = weights_after(3, False, torch.float64)
    assert_program(weights_after(3, True, torch.float32), weights_after(3, False, torch.float32), exact)
