"""A write into one of the tensors that an operator returned sent the graph through AOTAutograd.

`values, at = torch.topk(..); values /= values.sum(-1, keepdim=True)` is the router of many mixtures of
experts. The memory of the first tensor was taken for that of the tuple, which no view leads into.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dlc.report import collect
from tests.tolerance import assert_like_eager

Program = Callable[[Tensor], tuple[Tensor, ...]]


def router(x: Tensor) -> tuple[Tensor, ...]:
    values, at = torch.topk(x.softmax(-1), 2, dim=-1)
    values /= values.sum(-1, keepdim=True)
    return values, at


def maxima(x: Tensor) -> tuple[Tensor, ...]:
    values, at = x.exp().max(1)
    values.mul_(2)
    return values + 1, at


def chunks(x: Tensor) -> tuple[Tensor, ...]:
    a, b = (x * 2).chunk(2, 1)
    a.add_(1)
    b.mul_(3)
    return a, b, x


def part_of_the_first(x: Tensor) -> tuple[Tensor, ...]:
    values, at = torch.sort(x)
    at.add_(1)
    values[0] = 3
    return values, at, values.t()


def exponents(x: Tensor) -> tuple[Tensor, ...]:
    mantissa, exponent = torch.frexp(x)
    exponent += 1
    return mantissa * 2, exponent


def column_of_a_factor(x: Tensor) -> tuple[Tensor, ...]:
    q, r = torch.linalg.qr(x)
    q[:, 0] = 0
    return q, r, r.t()


def moments(x: Tensor) -> tuple[Tensor, ...]:
    var, mean = torch.var_mean(x, 1)
    var.sqrt_()
    mean.neg_()
    return var, mean


def unbound(x: Tensor) -> tuple[Tensor, ...]:
    rows = torch.unbind(x * 1)
    rows[0].add_(1)
    return rows[1], rows[0]


PROGRAMS = [
    router, maxima, chunks, part_of_the_first, exponents, column_of_a_factor, moments, unbound,
]  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_it_is_taken_directly(program: Program, dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="dlc", dynamic=dynamic, options={"strict": True})
    with torch.no_grad(), collect() as reports:
        for size in (6, 9) if dynamic else (6,):
            for x in (torch.randn(size, 6), torch.randn(6, size).t()):
                assert_like_eager(compiled, program, x)
                assert [y.stride() for y in compiled(x)] == [y.stride() for y in program(x)]
    assert {report["kind"] for report in reports} == {"direct"}
