"""Operators that torch cannot trace as they are: gradients whose meta kernel is missing, a keyword as a name.

torch runs a kernel on zeros where it knows no other way to a result's shape, which it cannot for sizes that
are symbols: the graph was left to eager. A graph with `aten.random.from` is no Python, and was refused.
Fake tensors of _standard_gamma and poisson lie as the operand, and eager's results in rows.
"""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import dlc
from tests.tolerance import assert_same_kind, strides

GRADIENTS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "gamma": (lambda x: torch._standard_gamma(x.exp()) * 2, (4, 5)),
    "gamma of many": (lambda x: torch._standard_gamma(x.exp().expand(3, 4, 5)), (4, 5)),
    "Student's t": (lambda x: torch.distributions.StudentT(x.exp(), validate_args=False).rsample(), (4, 5)),
    "chi-squared": (lambda x: torch.distributions.Chi2(x.exp(), validate_args=False).rsample(), (4, 5)),
    "fractional pool": (
        lambda x: F.fractional_max_pool3d(x, 2, output_size=2, _random_samples=torch.full((2, 3, 3), 0.4)),
        (2, 3, 6, 6, 6),
    ),
}
COLUMNS: dict[str, Callable[[Tensor], Tensor]] = {
    "gamma": lambda x: torch._standard_gamma(x.exp().t()) * x.t(),
    "Poisson": lambda x: torch.poisson(x.exp().t()) * x.t(),
    "Poisson, second": lambda x: x.t() + torch.poisson(x.exp().t()).sin(),
    "Dirichlet": lambda x: torch._sample_dirichlet(x.exp().t()) * x.t(),
    "binomial": lambda x: torch.binomial(x.exp().t().ceil(), x.sigmoid().t()) * x.t(),
}
DRAWN: dict[str, Callable[[Tensor], Tensor]] = {
    "floats": lambda x: torch.empty_like(x).random_(2, 9) + x,
    "below zero": lambda x: torch.empty_like(x).random_(-9, -2),
    "integers": lambda x: torch.empty_like(x, dtype=torch.int64).random_(0, 9) + 1,
    "bytes, no upper bound": lambda x: torch.empty_like(x, dtype=torch.uint8).random_(250, None),
    "floats, no upper bound": lambda x: torch.empty_like(x).random_(5, None),
    "columns": lambda x: x.t().clone().random_(0, 9),
    "a part": lambda x: (x * 2)[1:].random_(0, 9),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, dynamic: bool) -> None:
    f, sizes = GRADIENTS[name]
    x = torch.randn(sizes, requires_grad=True)
    compiled = torch.compile(f, backend="dlc", dynamic=dynamic, fullgraph=True, options={"strict": True})
    got, wanted = [], []
    for function, results in ((compiled, got), (f, wanted)):
        torch.manual_seed(3)
        result = function(x)
        results += [result.detach(), *torch.autograd.grad(result, x, torch.ones_like(result))]
    for mine, eager in zip(got, wanted, strict=True):
        assert_same_kind(mine, eager)
        assert (mine - eager).abs().max() <= 4 * torch.finfo(torch.float32).eps * eager.abs().max()


@pytest.mark.parametrize("how", ["static", "dynamic", "jit"])
@pytest.mark.parametrize("name", COLUMNS)
def test_draws_of_columns_make_rows(name: str, how: str) -> None:
    f, x = COLUMNS[name], torch.randn(4, 5)
    compiled = dlc.jit(f) if how == "jit" else torch.compile(f, backend="dlc", dynamic=how == "dynamic")
    torch.manual_seed(3)
    got = compiled(x)
    torch.manual_seed(3)
    wanted = f(x)
    assert_same_kind(got, wanted)
    assert (got - wanted).abs().max() <= 4 * torch.finfo(torch.float32).eps * wanted.abs().max()


@pytest.mark.parametrize("name", DRAWN)
def test_draws_between_two_numbers(name: str) -> None:
    f, x = DRAWN[name], torch.rand(4, 5)
    torch.manual_seed(3)
    got = dlc.jit(f)(x)
    torch.manual_seed(3)
    wanted = f(x)
    assert torch.equal(got, wanted) and got.dtype == wanted.dtype
    assert strides(got) == strides(wanted)


def test_of_all_numbers_of_64_bits() -> None:
    f = dlc.jit(lambda x: torch.empty_like(x, dtype=torch.int64).random_(5, None))
    with pytest.raises(dlc.CaptureError, match=r"random_\(from, None\)"):
        f(torch.rand(4))
