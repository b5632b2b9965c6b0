"""The functions of the kernel benchmark, which are not timed here but checked."""

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
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


def exact_black_scholes(*args: Tensor) -> Sequence[Tensor]:
    """In 40 digits: eager's own error is two units of float64, as d1 is a quotient that exp amplifies."""
    prices = []
    with mpmath.workdps(40):
        for row in zip(*(t.tolist() for t in args), strict=True):
            spot, strike, years, rate, volatility = map(mpmath.mpf, (*row, 0.03, 0.2))
            deviation = volatility * mpmath.sqrt(years)
            d1 = (mpmath.log(spot / strike) + (rate + volatility**2 / 2) * years) / deviation
            discounted = strike * mpmath.exp(-rate * years)
            call = spot * mpmath.ncdf(d1) - discounted * mpmath.ncdf(d1 - deviation)
            prices.append((float(call), float(call - spot + discounted)))
    return [torch.tensor(column, dtype=torch.float64) for column in zip(*prices, strict=True)]


#: Of cases in float64, where eager's results are not exact enough to measure others by.
EXACT = {"black_scholes f64": exact_black_scholes}


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_case(case: Case, compiler: Callable[..., Any]) -> None:
    compiled = compiler(own_code(case.call), fullgraph=True)
    inputs, exact = case.arguments(SIZES["l1"]), EXACT.get(case.title)
    assert_like_eager(results(case, compiled), results(case, case.call), *inputs, exact=exact)
