"""Functions that write to an argument and are in no table: traced alone, in a graph taken directly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.capture.direct import assert_same_results, check, run

G = torch.Generator().manual_seed(6)
X, Y = torch.randn(4, 6, generator=G), torch.rand(4, 6, generator=G)


def mask_beside_a_slice(x: Tensor, y: Tensor) -> Tensor:
    z = x.clone()
    z[y[:, 0] > 0.5, 0:2] = 0.0
    return z


def steps(x: Tensor, y: Tensor) -> Tensor:
    z = torch.empty_like(x)
    z[..., 0::2] = y[..., 1::2]
    z[..., 1::2] = x[..., ::2]
    return z


def steps_of_an_input(x: Tensor, y: Tensor) -> Tensor:
    x[..., 0::2] = 1.0
    return y + x


def out(x: Tensor, y: Tensor) -> Tensor:
    z = torch.empty_like(x)
    torch.add(x, y, out=z)
    return z * 2


def out_of_an_input(x: Tensor, y: Tensor) -> Tensor:
    torch.mul(x, y, out=x)
    return x + 1


def another_dtype(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y.double())
    return y * 1


def methods(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z, w = x.clone(), x.clone()
    z.eq_(y)
    w.cumsum_(0)
    return z.deg2rad_(), w, x.addmm_(y[:, :4], y)


def through_views(x: Tensor, y: Tensor) -> Tensor:
    z = x.clone()
    z[1:].cumsum_(0)
    z.t()[0].logical_not_()
    return z * y


CASES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    f.__name__: f
    for f in (
        mask_beside_a_slice, steps, steps_of_an_input, out, out_of_an_input, another_dtype, methods,
        through_views,
    )
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_directly(name: str, dynamic: bool | None) -> None:
    check(CASES[name], X, Y, dynamic=dynamic)


def test_arguments_that_share_their_storage() -> None:
    """Such an operator would read what it writes. AOTAutograd's meaning is that it reads first."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        return x.addmm_(y[:, :4], x.t().t())

    with torch.no_grad():
        mine, theirs = (run(function, (X, Y), capture) for capture in ("auto", "aot"))
    assert mine[2][0]["kind"] == "inference"
    assert_same_results(mine, theirs)
    torch.testing.assert_close(mine[0][0], torch.addmm(X, Y[:, :4], X))
