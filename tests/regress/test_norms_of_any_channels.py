"""Norms of groups whose number of channels is a symbol, and of what was put together, padded or cut."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.tolerance import assert_like_eager, assert_same_kind

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "as given": lambda x: F.group_norm(x, 2),
    "after cat": lambda x: F.group_norm(torch.cat([x, x * 2], 1), 2).relu(),
    "after pad": lambda x: F.group_norm(F.pad(x, (1, 1, 1, 1)), 2),
    "after slice": lambda x: F.group_norm(x[:, :, 1:], 2) * 2,
    "of an instance": lambda x: F.instance_norm(torch.cat([x, x], 1)),
}
FORMATS = {"first": torch.contiguous_format, "last": torch.channels_last}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("where", FORMATS)
@pytest.mark.parametrize("channels", [6, 140])  # of a group 3, and more than 64
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_and_gradients(name: str, channels: int, where: str, dynamic: bool) -> None:
    function = FUNCTIONS[name]
    x = torch.randn(2, channels, 5, 6).contiguous(memory_format=FORMATS[where])
    if dynamic:
        torch._dynamo.mark_dynamic(x, 1)
    x.requires_grad_()
    weights = torch.randn_like(function(x))
    compiled = torch.compile(function, backend="dlc", fullgraph=True, options={"strict": True})

    def both(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], list[Tensor]]:
        def run(x: Tensor, weights: Tensor) -> list[Tensor]:
            x = x if x.is_leaf and x.requires_grad else x.detach().requires_grad_()
            made = f(x)
            return [made.detach(), *torch.autograd.grad(made, x, weights)]

        return run

    assert_like_eager(both(compiled), both(function), x, weights)
    for got, wanted in zip(both(compiled)(x, weights), both(function)(x, weights), strict=True):
        assert_same_kind(got, wanted)
