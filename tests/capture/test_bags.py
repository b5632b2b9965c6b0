"""Bags of an embedding: eager's bits, rows and gradients, where all bags are of one size."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.capture.whole import FLOATS, check_whole, spread

aten = torch.ops.aten


def table(rows: int, width: int) -> Tensor:
    """Numbers of which many are equal, with both zeros, an infinity and rows of NaN."""
    x = torch.randint(-4, 5, (rows, width), generator=torch.Generator().manual_seed(2)).float() / 4
    x[1], x[2], x[3, ::2], x[5] = 0.0, -0.0, torch.inf, torch.nan
    return x


INDEX = torch.randint(0, 11, (9, 5), generator=torch.Generator().manual_seed(3))
INDEX[0, 0] = INDEX[1, 2] = 5
MODES = {"sum": 0, "mean": 1, "max": 2}


@pytest.mark.parametrize("capture", ["aot", "direct"])
@pytest.mark.parametrize("mode", ["mean", "max"])
def test_bags(mode: str, capture: str) -> None:
    def function(index: Tensor, x: Tensor) -> list[Tensor]:
        floats = [d for d in FLOATS if mode == "max" or d != torch.bfloat16]
        return [F.embedding_bag(i, x.to(d), mode=mode) for d in floats for i in (index, index.int())]

    for args in (INDEX, table(11, 7)), (INDEX[:, :1], table(11, 1)), (INDEX[:1], table(11, 40)):
        check_whole(function, *args, exact=True, capture=capture)
    check_whole(function, *spread((INDEX, table(11, 7))), exact=True, capture=capture, tier="gcc")


@pytest.mark.parametrize("overload", ["_embedding_bag", "_embedding_bag_forward_only"])
@pytest.mark.parametrize("mode", ["mean", "max"])
def test_all_that_is_said_of_bags(mode: str, overload: str) -> None:
    def function(index: Tensor, x: Tensor) -> Any:
        offsets = torch.arange(0, index.numel(), index.shape[1])
        args = x, index.reshape(-1), offsets, False, MODES[mode], False, None
        *made, rows = getattr(aten, overload)(*args)
        return *made, rows + 1

    check_whole(function, INDEX, table(11, 7), exact=True)


@pytest.mark.parametrize("mode", ["mean", "max"])
def test_any_many_bags(mode: str, compiler: Callable[..., Any]) -> None:
    def function(index: Tensor, x: Tensor) -> Tensor:
        return F.embedding_bag(index, x, mode=mode) * 2

    compiled, x = compiler(function), table(11, 7).nan_to_num()
    with torch.no_grad():
        for count in (4, 9, 1, 0, 7):
            index = INDEX[:count]
            torch._dynamo.maybe_mark_dynamic(index, 0)
            torch.testing.assert_close(compiled(index, x), function(index, x), rtol=0, atol=0)


@pytest.mark.parametrize("mode", MODES)
def test_gradients(mode: str, compiler: Callable[..., Any]) -> None:
    def function(index: Tensor, x: Tensor) -> Tensor:
        return (F.embedding_bag(index, x * 2, mode=mode).nan_to_num(posinf=3) ** 2).sum()

    gradients = []
    for call in (compiler(function), function):
        x = table(11, 7).requires_grad_()
        call(INDEX, x).backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients, equal_nan=True)


@pytest.mark.parametrize("index", [11, -1])
@pytest.mark.parametrize("mode", ["mean", "max"])
def test_a_row_that_is_not_there_is_refused(mode: str, index: int, compiler: Callable[..., Any]) -> None:
    at = INDEX.clone()
    at[3, 2] = index

    def function(at: Tensor, x: Tensor) -> Tensor:
        return F.embedding_bag(at, x, mode=mode) + 1

    with torch.no_grad():
        for call in (function, compiler(function)):
            with pytest.raises(RuntimeError):
                call(at, table(11, 7))


def test_bags_of_other_sizes_are_calls(compiler: Callable[..., Any]) -> None:
    """They begin where the data say, are padded, or have weights."""
    x, flat, begin = table(11, 7).nan_to_num(), INDEX.reshape(-1), torch.tensor([0, 3, 3, 20])
    weight = torch.rand(45, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        for mode, options in (
            ("mean", {"offsets": begin}),
            ("max", {"offsets": begin, "padding_idx": 4}),
            ("mean", {"offsets": torch.tensor([0, 20, 45]), "include_last_offset": True}),
            ("sum", {"offsets": begin, "per_sample_weights": weight}),
        ):

            def function(at: Tensor, x: Tensor, mode: str = mode, options: Any = options) -> Tensor:
                return F.embedding_bag(at, x, mode=mode, **options) + 1

            torch.testing.assert_close(compiler(function)(flat, x), function(flat, x))
        padded = compiler(lambda i, x: F.embedding_bag(i, x, mode="mean", padding_idx=4))
        torch.testing.assert_close(padded(INDEX, x), F.embedding_bag(INDEX, x, mode="mean", padding_idx=4))
