"""A number written to a tensor of bool is a truth value, in eager and in a compiled graph."""

from collections.abc import Callable
from typing import Any

import torch

from dlc.report import collect


def test_numbers_become_truth_values(compiler: Callable[..., Any]) -> None:
    def f(m: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.full_like(m, 2), torch.full((3,), 0.5, dtype=torch.bool), m.masked_fill(m, -1),
            m.clamp(max=0), torch.fill(m, float("nan")), m.new_full((2,), 256),
        )  # fmt: skip

    m = torch.tensor([True, False, True])
    with collect() as reports:
        mine = compiler(f)(m)
    assert {call[0] for r in reports for call in r["calls"]} <= {"aten.clone.default"}  # of equal results
    assert [t.tolist() for t in mine] == [t.tolist() for t in f(m)]
