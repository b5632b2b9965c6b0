"""Parts of what two axes were merged to, one of which is a quotient of sizes, stay within the axes.

That an index exists says that the quotient is not 0, by which the merged axis is divided: it was taken for a
size symbol's privilege.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.tolerance import assert_like_eager

Compiler = Callable[..., Any]


def halves(y: Tensor) -> Tensor:
    return torch.cat([y[:, y.shape[1] // 2 :], y[:, : y.shape[1] // 2]], 1)


def chunks(y: Tensor) -> Tensor:
    return torch.cat(y.chunk(2, 1)[::-1], 1)


def thirds(y: Tensor) -> Tensor:
    third = y.shape[1] // 3
    return torch.cat([y[:, 2 * third :], y[:, third : 2 * third], y[:, :third]], 1)


def odd_first(y: Tensor) -> Tensor:
    return torch.cat([y[:, 1::2], y[:, ::2]], 1)


def behind(y: Tensor) -> Tensor:
    """All but the first quarter, and that again in front of zeros."""
    quarter = y.shape[1] // 4
    return torch.cat([y[:, quarter:], F.pad(y[:, :quarter], (0, 0) * (y.dim() - 2) + (0, 3))], 1)


def turned(y: Tensor) -> Tensor:
    return y[:, y.shape[1] // 2 :].flip(1) * 2


def normed(x: Tensor, groups: int) -> Tensor:
    v = x.unflatten(1, (-1, groups) if groups == 8 else (groups, -1))
    return (v * (v.pow(2).mean(1, keepdim=True) + 1e-5).rsqrt()).flatten(1, 2)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "part", [halves, chunks, thirds, odd_first, behind, turned], ids=lambda f: f.__name__
)
@pytest.mark.in_turn(4, "halves", "chunks")
def test_parts(compiler: Compiler, part: Callable[[Tensor], Tensor], dynamic: bool, tier: str) -> None:
    def f(x: Tensor) -> Tensor:
        return F.silu(part(normed(x, 8)))

    compiled = compiler(f, dynamic=dynamic, options={"tier": tier, "verify": True})
    for shape in ((1, 16, 7, 1), (2, 24, 5, 3), (3, 40, 4)):
        assert_like_eager(compiled, f, torch.randn(shape))


@pytest.mark.parametrize("part", [halves, chunks, thirds, behind], ids=lambda f: f.__name__)
def test_parts_of_as_many_groups_as_another_size(
    compiler: Compiler, part: Callable[[Tensor], Tensor]
) -> None:
    def f(x: Tensor, g: Tensor) -> Tensor:
        return F.silu(part(normed(x, x.shape[1] // g.shape[0])))

    compiled = compiler(f, dynamic=True, options={"verify": True})
    for shape in ((1, 16, 7, 1), (2, 24, 5, 3)):
        assert_like_eager(compiled, f, torch.randn(shape), torch.randn(4))
