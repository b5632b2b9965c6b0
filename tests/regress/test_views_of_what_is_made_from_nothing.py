"""Results that share the storage of a tensor which is computed from no argument.

What is made from nothing, such as an iota, is computed again by each of its readers. Where several results
share its storage it must be one tensor for all of them.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.tolerance import assert_like_eager


def iota(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = torch.arange(16)
    return x * 2, a, a.unsqueeze(0)


def iota_of_a_size(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = torch.arange(x.shape[0] * 4)
    return x * 2, a.view(-1, 4), a[1:]


def iota_and_one(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = torch.arange(16) + 1
    return x * 2, a, a.view(4, 4)


def row_of_an_eye(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = torch.eye(4)
    return x * 2, a, a[1]


def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = torch.arange(16)
    return x * 2, a[1:], a[:2], a[::3]


def causal_mask(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The positions are returned, and the mask reads them too."""
    a = torch.arange(x.shape[0])
    p = a.unsqueeze(0)
    m = a[:, None] >= p
    return x.masked_fill(m, 0.0), p, a, m[None]


def taken_by_a_call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A view of the iota is a result and the operand of an eager operator."""
    a = torch.arange(4).to(torch.float64)
    return torch.sort(a[1:])[0] + x[:3, 0], a, a[1:]


def transposed_constant(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = torch.zeros(4, 4)
    return x * 2, a.t(), a[1]


def constant_by_strides(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = torch.full((4, 4), 3.0)
    return x * 2, a, a.as_strided((4, 4), (0, 1)), a.as_strided((4, 4), (0, 1), 4)


def expanded_and_copied(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = x[0, 0].expand(4, 4).clone()
    return a, a.t(), a[1]


FUNCTIONS = [iota, iota_of_a_size, iota_and_one, row_of_an_eye, parts, causal_mask, taken_by_a_call,
             transposed_constant, constant_by_strides, expanded_and_copied]  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_views_of_what_is_made_from_nothing(
    compiler: Callable[..., Any], function: Callable[..., Any], dynamic: bool
) -> None:
    x = torch.randn(4, 4)
    compiled = compiler(function, dynamic=dynamic)
    assert_like_eager(compiled, function, x)
    shared(compiled(x), function(x))


def shared(given: tuple[torch.Tensor, ...], wanted: tuple[torch.Tensor, ...]) -> None:
    """The results share storage where eager's do, in the same strides and at the same distances."""
    for g, w in zip(given, wanted, strict=True):
        assert g.stride() == w.stride()
        for h, v in zip(given, wanted, strict=True):
            same = w.untyped_storage().data_ptr() == v.untyped_storage().data_ptr()
            assert (g.untyped_storage().data_ptr() == h.untyped_storage().data_ptr()) == same
            assert not same or g.data_ptr() - h.data_ptr() == w.data_ptr() - v.data_ptr()
