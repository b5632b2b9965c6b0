"""Writes that eager refuses were computed: to a dtype that cannot hold them, or from what they write to."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import dlc
from tests.tolerance import assert_same_bits

X, SQUARE, N = torch.randn(6), torch.randn(4, 4), torch.arange(4)
Case = tuple[Callable[[Tensor], Any], Tensor]


def assigned(z: Tensor, index: Any, value: Any) -> Tensor:
    z[index] = value
    return z


def added(z: Tensor, value: Tensor) -> Tensor:
    z[1:] += value
    return z


def multiplied(n: Tensor, by: Any) -> Tensor:
    n *= by
    return n


REFUSED: dict[str, Case] = {
    "mul_ by a float": (lambda n: (n + 0).mul_(1.5), N),
    "mul_ of the input": (lambda n: n.mul_(1.5), N),
    "*=": (lambda n: multiplied(n + 0, 1.5), N),
    "mul_ of truth values": (lambda n: (n > 1).mul_(2), N),
    "mul_ by a tensor": (lambda n: (n + 0).mul_(n * 0.5), N),
    "addcmul_": (lambda n: (n + 0).addcmul_(n * 1.5, n), N),
    "add_ of a complex number": (lambda x: (x + 0).add_(1j), X),
    "z[1:] = z[:-1]": (lambda x: (lambda z: assigned(z, slice(1, None), z[:-1]))(x + 1), X),
    "z[1:] = z[:-1] of the input": (lambda z: assigned(z, slice(1, None), z[:-1]) + 0, X),
    "rows": (lambda z: assigned(z, slice(1, None), z[:-1]) + 0, SQUARE),
    "z[1:] += z[:-1]": (lambda x: (lambda z: added(z, z[:-1]))(x + 1), X),
    "copy_ of the transpose": (lambda x: (lambda z: z.copy_(z.t()))(x + 1), SQUARE),
    "add_ to repeated": (lambda x: (x + 1)[None].expand(3, 6).add_(1), X),
    "out": (lambda x: (lambda z: torch.neg(z[:-1], out=z[1:]))(x + 1), X),
    "heaviside of two dtypes": (lambda x: torch.heaviside(x, torch.ones(6, dtype=torch.float64)), X),
}

ALLOWED: dict[str, Case] = {
    "mul_ by an integer": (lambda n: (n + 0).mul_(2), N),
    "mul_ by a float of a float": (lambda x: (x + 1).mul_(1.5), X),
    "fill_ of integers": (lambda n: (n + 0).fill_(1.5), N),
    "a copy of itself": (lambda x: (lambda z: assigned(z, slice(1, None), z[1:]))(x + 1), X),
    "halves": (lambda x: (lambda z: assigned(z, slice(3, None), z[:3]))(x + 1), X),
    "a copy": (lambda x: (lambda z: assigned(z, slice(1, None), z[:-1].clone()))(x + 1), X),
    "one for all": (lambda x: (lambda z: assigned(z, slice(1, None), z[0]))(x + 1), X),
    "every other": (lambda x: (lambda z: assigned(z, slice(1, None, 2), z[:-1:2]))(x + 1), X),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", REFUSED)
def test_error_is_eager_s(name: str, dynamic: bool, compiler: Callable[..., Any]) -> None:
    function, x = REFUSED[name]
    with pytest.raises(RuntimeError) as eager:
        function(x.clone())
    with pytest.raises(RuntimeError) as mine:
        compiler(function, dynamic=dynamic)(x.clone())
    assert str(eager.value) in str(mine.value)


@pytest.mark.parametrize("name", ALLOWED)
def test_others_are_compiled(name: str, compiler: Callable[..., Any]) -> None:
    function, x = ALLOWED[name]
    before = dlc.counters()
    assert_same_bits(compiler(function, fullgraph=True)(x.clone()), function(x.clone()))
    made = {k: dlc.counters()[k] - before[k] for k in ("direct_graphs", "aot_graphs", "eager_graphs")}
    assert made["direct_graphs"] + made["aot_graphs"] == 1 and not made["eager_graphs"]
