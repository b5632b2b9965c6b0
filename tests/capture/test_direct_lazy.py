"""Values that torch negates or conjugates when they are read, in a graph that is taken directly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.capture.direct import assert_same_results, check, check_indirect, run

G = torch.Generator().manual_seed(8)
X = torch.randn(4, 6, dtype=torch.complex64, generator=G)
Y = torch.randn(4, 6, dtype=torch.complex64, generator=G)


def of_a_result(x: Tensor, y: Tensor) -> Tensor:
    z = x * y
    return (z.conj() + z).imag + z.conj().t().real.t()


def written_elsewhere(x: Tensor, y: Tensor) -> Tensor:
    z = x.conj() * 1
    z.real.mul_(2)
    w = (x * 2).real + y.conj().imag
    w.add_(1)
    return w + z.imag


CASES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "conj": lambda x, y: x.conj() * y + torch.conj(y),
    "twice": lambda x, y: x.conj().conj() + y.conj().t().conj().t(),
    "the real part of a real one": lambda x, y: (x.abs().real + 1, torch.real(y.abs()) * 2),
    "parts": lambda x, y: (x.conj().imag * 2, y.conj().real + 1, torch.imag(x.conj()) + torch.real(y)),
    "transposed": lambda x, y: (x.mH * 2, y.H + 1, x.adjoint() - 1),
    "products": lambda x, y: (x.mH @ y, y @ x.conj().t()),
    "resolved": lambda x, y: (x.conj().resolve_conj(), x.conj().imag.resolve_neg(), y.conj_physical()),
    "of real numbers": lambda x, y: (y.real.conj() + 1, x.abs().conj_physical() * 2, y.abs().resolve_neg()),
    "of a result": of_a_result,
    "operands of calls": lambda x, y: (x.conj().cumsum(0), x.conj().imag.sort()[0], torch.fft.fft(y.conj())),
    "transforms": lambda x, y: (torch.fft.ifft(x.real) * 2, torch.fft.hfft(y), torch.fft.ihfft(x.imag) + 1),
    "returned": lambda x, y: (torch.fft.ihfft(x.real), (x * y).conj(), x + 1),
    "views of it": lambda x, y: (x.conj()[1:, ::2] * 2, y.conj().reshape(-1) + 1, x.conj()[0].imag * 1),
    "chosen": lambda x, y: torch.where(x.real > 0, x.conj(), y) + x.conj().clone(),
    "joined": lambda x, y: torch.cat([x.conj(), y]) + torch.stack([x, y.conj()]).reshape(8, 6),
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_directly(name: str, dynamic: bool | None) -> None:
    check(CASES[name], X, Y, dynamic=dynamic)


@pytest.mark.parametrize("name", ["conj", "parts", "resolved", "views of it"])
def test_eagers_bits(name: str) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        made = CASES[name](x, y)
        return tuple(t.real.clone() for t in (made if isinstance(made, tuple) else (made,)))

    with torch.no_grad():
        mine = run(function, (X, Y), "direct")
        assert_same_results((mine[0], [], []), (list(function(X, Y)), [], []))


def written(x: Tensor, y: Tensor) -> Tensor:
    """What is read afterwards has the new values."""
    z = x * 2
    c = z.conj()
    z.add_(y)
    return c * 1


def written_through(x: Tensor, y: Tensor) -> Tensor:
    z = x * 2
    z.conj()[0] = y[0]
    return z + 1


def written_input(x: Tensor, y: Tensor) -> Tensor:
    c = x.conj()
    x.mul_(y)
    return c + 1


def running_sum(x: Tensor, y: Tensor) -> Tensor:
    c = x.conj()
    x.cumsum_(0)
    return c + 1


LEFT: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "written": written,
    "written through": written_through,
    "an input is written": written_input,
    "an input is written by a call": running_sum,
    "a view of an input": lambda x, y: (x.conj(), y + 1),
}


@pytest.mark.parametrize("name", LEFT)
def test_goes_through_aot(name: str) -> None:
    assert "negated or conjugated" in check_indirect(LEFT[name], X, Y)


def test_beside_what_it_is_of() -> None:
    """Eager's two results lie in one memory."""
    with pytest.raises(Exception, match="negated or conjugated"), torch.no_grad():
        run(lambda x, y: ((z := x * y), z.conj()), (X, Y), "direct")
