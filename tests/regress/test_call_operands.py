"""Calls that differ only in an object were merged, and operands came in another layout than recorded."""

from collections.abc import Callable
from typing import Any

import torch


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
