"""Products of dlc's own: as exact as eager's for sums of any length, and the same bits however they run."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.tolerance import Run, assert_runs, assert_same_bits

LENGTHS = (1, 100, 511, 513, 1000, 4096, 5000, 16384)
SIZES = ((1, 40), (7, 33), (64, 130))  # rows and columns
FLOATS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def own(compiler: Callable[..., Any], function: Callable[..., Any], tier: str = "tcc", **kwargs: Any) -> Any:
    return compiler(function, options={"products": "own", "tier": tier}, **kwargs)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("draw", [torch.randn, torch.rand], ids=["cancelling", "growing"])
def test_sums_of_any_length(draw: Callable[..., Tensor], dtype: str, compiler: Callable[..., Any]) -> None:
    """Products of a few and of many rows and columns, which are one program for each length."""
    compiled = own(compiler, torch.mm, dynamic=True)
    for length in LENGTHS:
        runs: list[Run] = []
        for seed in range(3):
            torch.manual_seed(seed)
            run: tuple[dict[str, Tensor], ...] = ({}, {}, {})
            for rows, columns in SIZES:
                a, b = (draw(s).to(FLOATS[dtype]) for s in ((rows, length), (length, columns)))
                for results, t in zip(run, (compiled(a, b), a @ b, a.double() @ b.double()), strict=True):
                    results[f"{rows} {columns}"] = t
            runs.append((run[0], run[1], run[2]))
        assert_runs(runs)


def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(F.linear(x, w, b))


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("columns", [1, 70, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_row_is_the_same_in_any_batch(
    dtype: torch.dtype, columns: int, compiler: Callable[..., Any]
) -> None:
    """Alone and among 300, on one thread and two, by both tiers."""
    torch.manual_seed(0)
    x, w, b = (torch.randn(s).to(dtype) for s in ((300, 1300), (columns, 1300), (columns,)))
    threads, want = torch.get_num_threads(), None
    for tier in ("tcc", "gcc"):
        torch._dynamo.reset()
        compiled = own(compiler, linear, tier, dynamic=True)
        for count in (1, 2):
            torch.set_num_threads(count)
            try:
                whole = compiled(x, w, b)
                want = whole if want is None else want
                assert_same_bits(whole, want)
                for first, rows in (
                    (0, 1),
                    (7, 1),
                    (299, 1),
                    (5, 2),
                    (20, 13),
                    (31, 14),
                    (40, 15),
                    (101, 150),
                ):
                    part = compiled(x[first : first + rows], w, b)
                    assert_same_bits(
                        part, want[first : first + rows], f"{rows} rows, {tier}, {count} threads"
                    )
            finally:
                torch.set_num_threads(threads)
