"""Eager refuses some operations on truth values; fake tensors do not, so dlc computed something."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

MASK, X, NUMBERS = torch.tensor([True, False, True]), torch.randn(3), torch.arange(3)

REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "float - bool": (lambda x, m: x - m, (X, MASK)),
    "float - True": (lambda x: x - True, (X,)),
    "1 - bool": (lambda m: 1 - m, (MASK,)),
    "sub_": (lambda x, m: (x + 1).sub_(m), (X, MASK)),
    "alpha=True": (lambda x: torch.add(x, x, alpha=True), (X,)),
    "alpha=2.0 of integers": (lambda n: torch.add(n, n, alpha=2.0), (NUMBERS,)),
    "floor": (torch.floor, (MASK,)),
    "round": (torch.round, (MASK,)),
    "relu": (torch.relu, (MASK,)),
    "clamp": (lambda m: m.clamp(m, m), (MASK,)),
    "argmax": (torch.argmax, (MASK,)),
}


@pytest.mark.parametrize("capture", ["auto", "aot"])
@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_as_by_eager(name: str, capture: str) -> None:
    function, args = REFUSED[name]
    torch._dynamo.reset()
    with pytest.raises(RuntimeError), torch.no_grad():
        function(*args)
    with pytest.raises(RuntimeError), torch.no_grad():
        torch.compile(function, backend="dlc", options={"capture": capture, "cache": False})(*args)
