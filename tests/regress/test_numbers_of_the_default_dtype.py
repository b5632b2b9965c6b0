"""Floating numbers have torch's default dtype where they meet whole ones, and are no sizes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("capture", ["aot", "direct"])
def test_comparisons(capture: str, double: None, compiler: Callable[..., Any]) -> None:
    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        return x > 16777216.0, x < 16777217.5

    x = torch.tensor([16777217, 16777216, 1])
    got = compiler(fn, options={"capture": capture})(x)
    assert [t.tolist() for t in got] == [t.tolist() for t in fn(x)]


def test_the_larger_of_two_numbers(compiler: Callable[..., Any]) -> None:
    """It is left to eager, with a reason."""

    def fn(x: Tensor, a: float, b: float) -> Tensor:
        return x * max(a, b)

    run = compiler(fn, dynamic=True, options={"strict": False})
    for a, b in ((1.5, 2.5), (3.5, 2.5)):
        assert run(torch.ones(3), a, b).tolist() == [max(a, b)] * 3
