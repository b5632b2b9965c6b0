"""Random operators of tensors whose axes lie in another order draw eager's numbers and have its strides.

Eager draws in the order of memory, or makes rows of what it drew; AOTAutograd's forms of the same operators
do the other thing. Strides and numbers were theirs.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import dlc
from tests.tolerance import assert_same_kind, strides

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "rrelu": lambda x: F.rrelu(x - 1, training=True),
    "rrelu, not training": lambda x: F.rrelu(x - 1),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, True),
    "alpha_dropout in place": lambda x: F.alpha_dropout(x * 2, 0.5, True, inplace=True),
    "alpha_dropout, then more": lambda x: torch.alpha_dropout(x, 0.3, True).relu() * 2,
    "rrelu in place": lambda x: F.rrelu(x - 1, training=True, inplace=True),
    "rrelu in place, not training": lambda x: F.rrelu(x - 1, inplace=True),
    "rrelu_": lambda x: torch.rrelu_(x - 1, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.5, True),
    "dropout": lambda x: F.dropout(x, 0.5, True),
    "dropout in place": lambda x: F.dropout(x * 2, 0.5, True, inplace=True),
    "dropout in place of a view": lambda x: F.dropout((x * 2).transpose(1, 2)[1:], 0.5, True, True),
    "dropout_": lambda x: torch.dropout_(x * 2, 0.5, True) + x,
    "dropout2d in place": lambda x: F.dropout2d(x * 2, 0.5, True, inplace=True),
    "dropout2d": lambda x: F.dropout2d(x, 0.5, True),
    "rand_like": lambda x: x + torch.rand_like(x),
    "randn_like in rows": lambda x: x + torch.randn_like(x, memory_format=torch.contiguous_format),
    "bernoulli": lambda x: x * torch.bernoulli(x.detach().sigmoid()),
    "bernoulli_": lambda x: x * torch.empty_like(x).bernoulli_(0.4),
    "bernoulli_ of many chances": lambda x: x * torch.empty_like(x).bernoulli_(x.detach().sigmoid()),
    "bernoulli_ of a chance for a row": lambda x: (
        x * torch.empty_like(x).bernoulli_(torch.linspace(0, 1, x.shape[-1]))
    ),
    "uniform_": lambda x: x * torch.empty_like(x).uniform_(),
}
OPERANDS: dict[str, Callable[[Tensor], Tensor]] = {
    "computed": lambda x: x.exp(),
    "given": lambda x: x,
    "transposed": lambda x: x.permute(0, 2, 1, 3).exp(),
    "cut": lambda x: x[:, :, 1:].exp(),
}


def run(f: Callable[[Tensor], Tensor], x: Tensor, weights: Tensor | None) -> list[Tensor]:
    torch.manual_seed(3)
    result = f(x)
    return [result.detach(), *(torch.autograd.grad(result, x, weights) if weights is not None else ())]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.in_turn(6, "rrelu", "alpha_dropout")
def test_draws(compiler: Callable[..., Any], name: str, operand: str, dynamic: bool) -> None:
    def f(x: Tensor) -> Tensor:
        return FUNCTIONS[name](OPERANDS[operand](x))

    for grad in (False, True):
        torch._dynamo.reset()
        compiled = compiler(f, dynamic=dynamic)
        x = torch.randn(2, 3, 4, 5).abs().contiguous(memory_format=torch.channels_last).requires_grad_(grad)
        weights = torch.randn_like(f(x)) if grad else None
        for got, want in zip(run(compiled, x, weights), run(f, x, weights), strict=True):
            torch.testing.assert_close(got, want)
            assert_same_kind(got, want)


@pytest.mark.parametrize("shape", [(2, 1, 4, 5), (2, 3, 1, 1), (1, 3, 4, 1), (2, 3, 4, 5, 2)], ids=str)
@pytest.mark.parametrize("name", ["rrelu", "alpha_dropout", "bernoulli_"])
def test_images_of_one_row_or_channel(
    compiler: Callable[..., Any], name: str, shape: tuple[int, ...]
) -> None:
    def f(x: Tensor) -> Tensor:
        return FUNCTIONS[name](x.exp())

    last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    x = torch.randn(shape).contiguous(memory_format=last)
    (got,), (want,) = run(compiler(f), x, None), run(f, x, None)
    torch.testing.assert_close(got, want)
    assert strides(got) == strides(want)


@pytest.mark.parametrize(
    "name",
    [
        "rrelu",
        "rrelu in place",
        "alpha_dropout",
        "alpha_dropout in place",
        "bernoulli_",
        "dropout_",
        "dropout in place",
        "dropout in place of a view",
    ],
)
def test_draws_without_dynamo(name: str) -> None:
    def f(x: Tensor) -> Tensor:
        return FUNCTIONS[name](x.exp())

    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    (got,), (want,) = run(dlc.jit(f, constants=True), x, None), run(f, x, None)
    torch.testing.assert_close(got, want)
    assert_same_kind(got, want)
