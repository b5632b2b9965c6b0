"""x[i] = 1.0 with a tensor of positions ended the process: the number had no dtype when it was put there."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_same_bits

AT = torch.tensor([1, 3])


def written(x: Tensor, index: Any, value: Any) -> Tensor:
    x[index] = value
    return x + 1


def at_rows(x: Tensor, i: Tensor) -> Tensor:
    return written(x, i, 1.0)


def at_places(x: Tensor, i: Tensor) -> Tensor:
    return written(x, (i, i), -float("inf"))


def at_columns(x: Tensor, i: Tensor) -> Tensor:
    return written(x, (slice(None), i), 2)


def a_size(x: Tensor, i: Tensor) -> Tensor:
    return written(x, i, x.shape[1])


def half_a_size(x: Tensor, i: Tensor) -> Tensor:
    return written(x, i, x.shape[0] / 2)


def a_truth_value(x: Tensor, i: Tensor) -> Tensor:
    return written(x, (i, i), True)


def not_a_number(x: Tensor, i: Tensor) -> Tensor:
    return written(x, (slice(None), i), float("nan"))


def by_a_mask(x: Tensor, i: Tensor) -> Tensor:
    return written(x, x > i[0], x.shape[0])


Function = Callable[[Tensor, Tensor], Tensor]
ALL: list[Function] = [at_rows, at_columns, a_size, half_a_size, a_truth_value, by_a_mask]
FLOATING: list[Function] = [*ALL, at_places, not_a_number]  # no integer is infinite
CASES = [(f, d) for d in (torch.float32, torch.float64, torch.bfloat16) for f in FLOATING]
CASES += [(f, d) for d in (torch.int64, torch.uint8) for f in ALL]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("function", "dtype"), CASES)
def test_written(function: Function, dtype: torch.dtype, dynamic: bool) -> None:
    torch._dynamo.reset()
    options = {"strict": True, "tier": "tcc"}
    compiled = torch.compile(function, backend="dlc", dynamic=dynamic, options=options)
    with torch.no_grad():
        for n in (4, 6):
            x = torch.arange(n * n).view(n, n).to(dtype)
            mine, theirs = x.clone(), x.clone()
            assert_same_bits(compiled(mine, AT), function(theirs, AT))
            assert_same_bits(mine, theirs)
