"""Orthogonal polynomials whose degree is data, by their recurrences: for a program without torch.

p[k + 1] = (a x + b) p[k] - c p[k - 1], with a, b and c of k (https://dlmf.nist.gov/18.9).  The steps go on
until the largest degree, and an element keeps what it has at its own.  A degree is cut to a whole number.
Below 0 the value is 0, and so it is for a degree that is no number or infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop_op
from torch._ops import OpOverload

aten = torch.ops.aten

_Step = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # x, k, p[k - 1], p[k] -> p[k + 1]


def _twice(x: Tensor, k: Tensor, before: Tensor, now: Tensor) -> Tensor:
    return (x + x) * now - before


def _physicists(x: Tensor, k: Tensor, before: Tensor, now: Tensor) -> Tensor:
    return 2 * (x * now - k * before)


def _probabilists(x: Tensor, k: Tensor, before: Tensor, now: Tensor) -> Tensor:
    return x * now - k * before


def _laguerre(x: Tensor, k: Tensor, before: Tensor, now: Tensor) -> Tensor:
    return ((k + k + (1 - x)) * now - k * before) / (k + 1)


def _legendre(x: Tensor, k: Tensor, before: Tensor, now: Tensor) -> Tensor:
    return ((k + k + 1) * x * now - k * before) / (k + 1)


def _shifted(x: Tensor) -> Tensor:
    return x + x - 1


def _same(x: Tensor) -> Tensor:
    return x


#: By name, the first degree of x, the step, and what it is a polynomial of.
_POLYNOMIALS: dict[str, tuple[Callable[[Tensor], Tensor], _Step, Callable[[Tensor], Tensor]]] = {
    "chebyshev_polynomial_t": (_same, _twice, _same),
    "chebyshev_polynomial_u": (lambda x: x + x, _twice, _same),
    "chebyshev_polynomial_v": (lambda x: x + x - 1, _twice, _same),
    "chebyshev_polynomial_w": (lambda x: x + x + 1, _twice, _same),
    "shifted_chebyshev_polynomial_t": (_same, _twice, _shifted),
    "shifted_chebyshev_polynomial_u": (lambda x: x + x, _twice, _shifted),
    "shifted_chebyshev_polynomial_v": (lambda x: x + x - 1, _twice, _shifted),
    "shifted_chebyshev_polynomial_w": (lambda x: x + x + 1, _twice, _shifted),
    "hermite_polynomial_h": (lambda x: x + x, _physicists, _same),
    "hermite_polynomial_he": (_same, _probabilists, _same),
    "laguerre_polynomial_l": (lambda x: 1 - x, _laguerre, _same),
    "legendre_polynomial_p": (_same, _legendre, _same),
}


def _polynomial(name: str) -> Callable[..., Any]:
    first, step, of = _POLYNOMIALS[name]

    def made(x: Tensor, n: Tensor) -> Any:
        dtype = torch.result_type(x, n)
        dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
        if dtype not in (torch.float32, torch.float64):
            return NotImplemented
        x, n = torch.broadcast_tensors(x.to(dtype), n.to(torch.float64))
        x, degree = of(x), torch.where(n.isfinite(), n.trunc(), -1.0)  # an f32 would not count beyond 2**24
        zero = torch.where(degree < 0, 0.0, torch.ones_like(x))

        def goes_on(k: Tensor, before: Tensor, now: Tensor, x: Tensor, degree: Tensor) -> Tensor:
            return (degree > k).any()

        def next_(k: Tensor, before: Tensor, now: Tensor, x: Tensor, degree: Tensor) -> Any:
            after = torch.where(degree > k, step(x, k.to(dtype), before, now), now)
            return k + 1, now.clone(), after

        start = (torch.ones([], dtype=torch.float64), zero.clone(), torch.where(degree < 1, zero, first(x)))
        return while_loop_op(goes_on, next_, start, (x.clone(), degree.clone()))[2]

    return made


def _number(value: Any, beside: Tensor) -> Tensor:
    """As torch promotes it: beside whole numbers it keeps its fraction."""
    whole = not beside.dtype.is_floating_point
    return torch.full([], value, dtype=torch.get_default_dtype() if whole else beside.dtype)


def polynomials() -> dict[OpOverload, Callable[..., Any]]:
    """By operator, its program; NotImplemented where that does not hold for its arguments."""
    found = {}
    for name in _POLYNOMIALS:
        made, packet = _polynomial(name), getattr(aten, f"special_{name}")
        found[packet.default] = made
        found[packet.n_scalar] = lambda x, n, made=made: made(x, _number(n, x))
        found[packet.x_scalar] = lambda x, n, made=made: made(_number(x, n), n)
    return found
