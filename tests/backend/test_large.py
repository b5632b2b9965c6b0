"""Tensors larger than caches: gcc's tier asks for them ahead and stores past the caches. The same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_same_bits

ROWS, WIDTH = 1503, 1411  # more than 8 MiB of floats; neither lines of the cache nor tiles come out even


def heat(u: Tensor) -> Tensor:
    middle = u[1:-1, 1:-1]
    return middle + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * middle)


def differences(u: Tensor) -> Tensor:
    return (u[1:] - u[:-1]) * 0.5


def turned(u: Tensor) -> Tensor:
    return u.t() * 2 + u.reshape(u.shape[1], u.shape[0])


def two_results(u: Tensor) -> tuple[Tensor, ...]:
    v = u.t().contiguous()
    return v, v * u.reshape(v.shape)


def turned_in_place(u: Tensor) -> Tensor:
    out = u.reshape(u.shape[1], u.shape[0]).clone()
    return out.add_(u.t())


def leaves(result: Any) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("call", [heat, differences, turned, two_results, turned_in_place])
def test_bits(call: Callable[..., Any], dynamic: bool, compiler: Callable[..., Any]) -> None:
    dtypes = (torch.float32,) if dynamic else (torch.float32, torch.float64)
    for dtype in dtypes:
        u = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)
        made = []
        for tier in ("tcc", "gcc"):
            torch._dynamo.reset()
            run = compiler(call, dynamic=dynamic, options={"tier": tier})
            if dynamic:
                run(torch.randn(70, 90))
            made.append(run(u))
        for results in zip(*(leaves(r) for r in (call(u), *made)), strict=True):
            for result in results[1:]:
                assert_same_bits(result, results[0])


def test_a_parameter_that_begins_within_an_element(compiler: Callable[..., Any]) -> None:
    """What is written in place may lie anywhere: no line of the cache begins with one of its elements."""

    def add_turned(out: Tensor, u: Tensor) -> None:
        out.add_(u.t())

    u = torch.randn(ROWS, WIDTH)
    memory = bytearray(u.nbytes + 1)
    out = torch.frombuffer(memory, dtype=torch.float32, offset=1).view(WIDTH, ROWS)
    assert out.data_ptr() % 4
    out.fill_(0.5)
    compiler(add_turned, options={"tier": "gcc"})(out, u)
    assert_same_bits(out, (u.t() + 0.5).contiguous())


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("words", [1, 5, 8, 70])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_are_looked_up(words: int, dtype: torch.dtype, compiler: Callable[..., Any]) -> None:
    """Rows of a large table are asked for by the indices that come next: behind the last are none."""

    def bags(index: Tensor, table: Tensor) -> Tensor:
        return torch.nn.functional.embedding(index, table).sum(1)

    table = torch.randn(9000, 128).to(dtype)
    index = torch.randint(0, 9000, (37, words))
    made = []
    for tier in ("tcc", "gcc"):
        torch._dynamo.reset()
        made.append(compiler(bags, options={"tier": tier})(index, table))
    assert_same_bits(*made)
    torch.testing.assert_close(made[0], bags(index, table))
