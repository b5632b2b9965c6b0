"""The rows of `python -m benchmarks operators`: dlc compiles each and agrees with eager; two are measured."""

import copy
import functools
import io
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch._dynamo
from rich.console import Console
from torch import Tensor, nn

from benchmarks import operators
from benchmarks.cases.case import Case
from benchmarks.measure import Timing
from benchmarks.operators import CASES, SIZES
from benchmarks.peers import own_code
from benchmarks.report import Row
from tests.tolerance import assert_like_eager, double

RANDOM = "dropout in training"


def results(case: Case, run: Callable[..., Any]) -> Callable[..., Sequence[Tensor]]:
    """A function of what a call returns and of the gradients, where the case has them."""

    def call(*args: Tensor) -> Sequence[Tensor]:
        copies = [x.detach().clone().requires_grad_(x.requires_grad) for x in args]
        torch.manual_seed(0)
        made = run(*copies)
        if case.train:
            made.backward(torch.ones_like(made))
            return (made, *(x.grad for x in copies if x.requires_grad))
        return [torch.view_as_real(made) if made.is_complex() else made]

    return call


def exactly(run: Callable[..., Any], *args: Tensor) -> Sequence[Tensor]:
    return run(*double(args))


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_row(case: Case, compiler: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    compiled = compiler(own_code(case.call))
    inputs = case.arguments(SIZES["small"])
    with torch.set_grad_enabled(case.train):
        if case.title == RANDOM:
            (mine,), (eager,) = (results(case, run)(*inputs) for run in (compiled, case.call))
            assert torch.equal(mine, eager)
            return
        exact = copy.deepcopy(case.call).double() if isinstance(case.call, nn.Module) else case.call
        truth = functools.partial(exactly, results(case, exact))
        assert_like_eager(results(case, compiled), results(case, case.call), *inputs, exact=truth)


def test_titles_differ() -> None:
    titles = [case.title for case in CASES]
    assert len(set(titles)) == len(titles) > 100


def test_two_rows() -> None:
    """A row and a gradient's row are measured, sorted and shown."""
    with torch.no_grad():
        rows = operators.run("relu,gelu gradient", "small", ["eager", "dlc"], 0.01)
    assert [row.case for row in rows] == ["relu", "gelu gradient"]
    for row in rows:
        assert row.timings.keys() == {"eager", "dynamo", "dlc"} and row.floors.keys() == {"dynamo", "dlc"}
    assert [Row.of(row.data()) for row in rows] == rows
    console = Console(width=250, file=io.StringIO())
    console.print(operators.table(rows))
    assert "relu" in console.file.getvalue()


def timing(seconds: float) -> Timing:
    return Timing(seconds * 0.9, seconds, seconds * 1.1, 7)


@pytest.mark.parametrize(
    ("dlc", "word"),
    [(11.0, ""), (12.5, "behind, within the spread"), (20.0, "behind")],
)
def test_mark(dlc: float, word: str) -> None:
    """Of 10 seconds behind guards of 2: 12 are as good as the operators as they are."""
    timings = {"eager": timing(8.0), "dynamo": timing(12.0), "dlc": timing(dlc)}
    row = Row("x", timings, "small", dict.fromkeys(("dynamo", "dlc"), timing(2.0)))
    assert operators.mark(row) == word
    assert operators.ratio(row, "dlc") == pytest.approx((dlc - 2) / 10)
