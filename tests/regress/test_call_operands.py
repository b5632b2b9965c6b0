"""Calls that differ only in an object were merged, and operands came in another layout than recorded."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor


def same(fn: Callable[..., Any], *args: Any) -> None:
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(fn, backend="dlc")(*args), fn(*args))


def test_constants_of_one_graph_are_told_apart() -> None:
    same(lambda x: x[((0, 2, 3), (1, 3, 3), (0, 0, 2))], torch.randn(5, 5, 5))


def test_a_dense_operand_is_dense() -> None:
    index, offsets = torch.arange(10)[::2], torch.tensor([0, 0, 3])
    weights = torch.randn(5)

    def fn(w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(
            index, w, offsets=offsets, mode="sum", per_sample_weights=weights
        )

    same(fn, torch.randn(10, 5))


def test_a_result_keeps_the_layout_that_the_operator_gave_it() -> None:
    x = torch.randn(1, 2, 6, 6).to(memory_format=torch.channels_last)
    pooled, index = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    torch._dynamo.reset()
    got = torch.compile(torch.nn.functional.max_unpool2d, backend="dlc")(pooled, index, 2)
    want = torch.nn.functional.max_unpool2d(pooled, index, 2)
    torch.testing.assert_close(got, want)
    assert got.stride() == want.stride()


def test_strides_of_what_may_be_empty_are_dense_too() -> None:
    def fn(x: torch.Tensor, p: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
        rows, h, e = x.shape[1], heads.shape[0], x.shape[2]
        size = e - 2 * ((e + 2) // 3)
        c = x[:, :, :size].relu().view(x.shape[0], rows * h, size // h).transpose(0, 1)
        y = torch.bmm(p.softmax(-1), c).transpose(0, 1).contiguous()
        return torch.ops.aten._unsafe_view.default(y, [3 * rows, size])

    torch._dynamo.reset()
    args = torch.randn(3, 2, 12), torch.randn(4, 3, 3), torch.ones(2)
    torch.testing.assert_close(torch.compile(fn, backend="dlc", dynamic=True)(*args), fn(*args))


def test_empty_results_have_the_strides_of_eager() -> None:
    x = torch.randn(2, 0, 3)
    for fn in (lambda x: x + 1, lambda x: x.flip(0), lambda x: x.repeat(2, 2, 1), torch.ones_like):
        torch._dynamo.reset()
        assert torch.compile(fn, backend="dlc")(x).stride() == fn(x).stride()


# Kernels write row-major results: operators that keep the layout of their operand got another one than in
# eager, and drew random numbers in another order.
X, IMAGES = torch.rand(6, 8), torch.rand(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
WEIGHT = torch.rand(4, 3, 3, 3)
LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "rand_like": lambda: torch.rand_like(X.t() + 1),
    "rand_like of every other": lambda: torch.rand_like((X.t() + 1)[:, ::2]),
    "rand_like of repeated": lambda: torch.rand_like((X.t() + 1)[:, None].expand(8, 3, 6)),
    "rand_like of turned": lambda: torch.rand_like((X + 1).flip(0).t()[::2]),
    "bernoulli": lambda: torch.bernoulli((X.t() * 0.5)[:, 1:4]),
    "dropout": lambda: F.dropout((X.t() + 1)[:, 1:4], 0.5),
    "digamma": lambda: torch.digamma(X.t() + 1),
    "digamma of a reshaped slice": lambda: torch.digamma((X + 1).t().reshape(6, 8)[:, :4].t()),
    "sort": lambda: torch.sort(X.t() + 1)[0],
    "conv2d": lambda: F.conv2d(IMAGES + 1, WEIGHT),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_computed_operands_are_laid_out_as_in_eager(
    name: str, dynamic: bool, compiler: Callable[..., Any]
) -> None:
    torch.manual_seed(1)
    mine = compiler(LAYOUTS[name], dynamic=dynamic)()
    torch.manual_seed(1)
    theirs = LAYOUTS[name]()
    assert mine.stride() == theirs.stride()
    torch.testing.assert_close(mine, theirs)
