"""Searches: in sorted rows and in small sets, eager's indices, also where the order is broken by NaN."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.capture.whole import FLOATS, INTEGERS, check_whole, spread

pytestmark = pytest.mark.in_turn(2)


def numbers(*shape: int) -> Tensor:
    """Small numbers, most of them several times, with both zeros, an infinity and NaN."""
    x = torch.randint(-5, 6, shape, generator=torch.Generator().manual_seed(len(shape))).float()
    x.view(-1)[1::9] = -0.0
    x.view(-1)[2::11] = torch.inf
    x.view(-1)[3::13] = torch.nan
    return x


X = numbers(7, 9)
ROWS = X.nan_to_num().sort(1).values[:, :5].contiguous()
LINE = numbers(13).sort().values
MIXED = ROWS.flip(1).contiguous()
ORDER = MIXED.argsort(1)
INDEX = torch.randint(0, 9, (4, 6), generator=torch.Generator().manual_seed(1))

SEARCHES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "bucketize": (lambda x, b: torch.bucketize(x, b), (X, LINE)),
    "bucketize to the right": (lambda x, b: torch.bucketize(x, b, right=True), (X, LINE)),
    "bucketize to 32 bits": (lambda x, b: torch.bucketize(x, b, out_int32=True), (X, LINE)),
    "bucketize of one": (lambda x, b: torch.bucketize(x, b), (X, LINE[:1])),
    "bucketize of none": (lambda x, b: torch.bucketize(x, b), (X, LINE[:0])),
    "bucketize of what is not sorted": (lambda x, b: torch.bucketize(x, b), (X, numbers(21))),
    "bucketize of computed": (lambda x, b: torch.bucketize(x * 2, b + 1) + 1, (X, LINE)),
    "in a line": (lambda b, x: torch.searchsorted(b, x), (LINE, X)),
    "in rows": (lambda b, x: torch.searchsorted(b, x), (ROWS, X)),
    "in rows to the right": (lambda b, x: torch.searchsorted(b, x, right=True), (ROWS, X)),
    "in rows by side": (
        lambda b, x: [torch.searchsorted(b, x, side=s) for s in ("left", "right")],
        (ROWS, X),
    ),
    "in rows in an order": (lambda b, o, x: torch.searchsorted(b, x, sorter=o), (MIXED, ORDER, X)),
    "in a line in an order": (
        lambda b, o, x: torch.searchsorted(b, x, sorter=o, side="right"),
        (MIXED[2], ORDER[2], X),
    ),
    "for a number": (
        lambda b: [torch.searchsorted(b, v, right=r) for v in (1, 2.5, -0.0) for r in (False, True)],
        (LINE,),
    ),
    "bucketize of a number": (lambda b: torch.bucketize(2.5, b) + torch.bucketize(-3, b), (LINE,)),
    "for a number with digits": (
        lambda b: [torch.searchsorted(b.to(d), 0.1) for d in FLOATS],
        (torch.tensor([-1, 0.1, 0.2]),),
    ),
    "in another dtype": (
        lambda b, x, i: (torch.searchsorted(b, i), torch.searchsorted(i[0], x)),
        (LINE, X, INDEX),
    ),
    "one of some": (lambda x, s: torch.isin(x, s), (INDEX, torch.tensor([1, 4, 7]))),
    "none of some": (lambda x, s: torch.isin(x, s, invert=True), (X, torch.tensor([[-0.0, 4.0, torch.nan]]))),
}


@pytest.mark.parametrize("capture", ["aot", "direct"])
@pytest.mark.parametrize("name", SEARCHES)
def test_search(name: str, capture: str) -> None:
    function, args = SEARCHES[name]
    check_whole(function, *args, exact=True, capture=capture)


@pytest.mark.parametrize(
    "name", [n for n in SEARCHES if "some" not in n]
)  # torch traces isin with other strides
def test_search_of_strided_tensors(name: str) -> None:
    function, args = SEARCHES[name]
    check_whole(function, *spread(args), exact=True, tier="gcc" if name == "in rows" else "tcc")


@pytest.mark.parametrize("index", [5, -1])
def test_an_order_that_is_none_is_refused(index: int, compiler: Callable[..., Any]) -> None:
    """Also at a place that no search comes by."""
    order = ORDER.clone()
    order[3, 4] = index

    def function(b: Tensor, x: Tensor) -> Tensor:
        return torch.searchsorted(b, x, sorter=order)

    for call in (function, compiler(function)):
        with pytest.raises(RuntimeError, match=r"out of (range|bounds)"):
            call(MIXED, torch.full((7, 1), -9.0))


def test_search_in_every_dtype() -> None:
    def function(x: Tensor, b: Tensor) -> list[Tensor]:
        return [torch.bucketize(x.to(d), b.to(d)) for d in (*FLOATS, *INTEGERS)]

    line = torch.tensor([0, 1, 1, 3, 7])
    check_whole(function, INDEX, line, exact=True)
    check_whole(function, INDEX[:0], line, exact=True)


def test_search_of_any_many() -> None:
    """The number of boundaries is in the program, that of what is searched is not."""
    torch._dynamo.reset()
    boundaries = LINE.clone()

    def function(x: Tensor) -> Tensor:
        return torch.bucketize(x, boundaries)

    compiled = torch.compile(function, backend="dlc", options={"strict": True, "tier": "tcc"})
    with torch.no_grad():
        for count in (3, 8, 1, 0, 30):
            x = numbers(2, count)
            assert torch.equal(compiled(x), function(x))


MASK = X > 1


def written(x: Tensor, index: Any, v: Any) -> Tensor:
    y = x * 1
    y[index] = v
    return y


WRITES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "a number": (lambda x, m: written(x, m, 3.0), (X, MASK)),
    "a number to integers": (lambda x, m: written(x, m, 3), (INDEX, INDEX > 3)),
    "a number to rows": (lambda x, m: written(x, m, -0.0), (X, MASK[:, 0])),
    "a row to rows": (lambda x, m, v: written(x, m, v), (X, MASK[:, 0], numbers(9))),
    "one row to rows": (lambda x, m, v: written(x, m, v), (X, MASK[:, 0], numbers(1, 9))),
    "a scalar": (lambda x, m, v: written(x, m, v.sum()), (X, MASK, LINE)),
}


@pytest.mark.parametrize("capture", ["aot", "direct"])
@pytest.mark.parametrize("name", WRITES)
def test_masked_write(name: str, capture: str) -> None:
    function, args = WRITES[name]
    check_whole(function, *args, exact=True, capture=capture)
    check_whole(function, *spread(args), exact=True, capture=capture, dynamic=True)


def test_masked_sum() -> None:
    def function(x: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        return x.index_put((m,), v, accumulate=True), torch.ops.aten.index_put(x, [None, m[0]], v)

    check_whole(function, X, MASK, torch.tensor(2.5), exact=True)


def test_values_for_each_place_are_a_call(compiler: Any) -> None:
    """How many there must be depends on the mask."""

    def function(x: Tensor, m: Tensor, v: Tensor) -> Tensor:
        return x.index_put((m,), v) + 1

    with torch.no_grad():
        values = numbers(int(MASK.sum()))
        torch.testing.assert_close(
            compiler(function)(X, MASK, values), function(X, MASK, values), equal_nan=True
        )
        with pytest.raises(RuntimeError):
            compiler(function)(X, MASK, values[1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bins", [1, 7, 100])
def test_how_many_are_where(bins: int, dtype: torch.dtype) -> None:
    """What is outside of the range, or NaN, is not counted; the last bin has both its edges."""
    x = torch.cat([X.view(-1), torch.linspace(-6, 6, 1001), torch.randn(50) * 3]).to(dtype)

    def function(x: Tensor) -> list[Tensor]:
        return [
            torch.histc(x, bins, -3, 4),
            torch.histc(x[:0], bins, -0.3, 0.1),
            torch.histc(x, bins, 0.1, 0.7),
        ]

    for tier in ("tcc", "gcc"):
        check_whole(function, x, exact=True, tier=tier)
    check_whole(lambda x: torch.histc(x, bins, -3, 4), x, exact=True, dynamic=True)


#: Data whose range is their own.
DATA: dict[str, Tensor] = {
    "a matrix": numbers(7, 9).nan_to_num(posinf=4),
    "reals": torch.randn(3000, generator=torch.Generator().manual_seed(7)),
    "on the edges": torch.arange(300.0) * 0.1,
    "one number": torch.full((5,), 3.0),
    "one element": torch.tensor([-2.5]),
    "a scalar": torch.tensor(7.0),
    "one number that 1 is lost in": torch.full((3,), -(2.0**26)),
    "one number that 1 is half lost in": torch.full((3,), 2.0**24),
    "nothing": torch.empty(0),
    "more than a number holds": torch.tensor([3e38, -3e38, 0.0]),
    "positions that overflow": torch.tensor([3e38, 1.0, 2e38, -3e37]),
}


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("name", DATA)
def test_how_many_are_where_in_all(name: str, tier: str) -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [torch.histc(x, bins) for bins in (1, 2, 7, 100)] + [torch.histc(x * 1, 3, 2, 2)]

    check_whole(function, DATA[name], exact=True, tier=tier)
    check_whole(function, spread(DATA[name].double()), exact=True, tier=tier)


@pytest.mark.parametrize("name", ["a matrix", "reals", "one number", "on the edges"])
def test_how_many_are_where_of_any_many(name: str) -> None:
    check_whole(lambda x: torch.histc(x, 10), DATA[name], exact=True, dynamic=True)


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_a_range_without_end_is_refused(number: float, compiler: Callable[..., Any]) -> None:
    x = torch.tensor([1.0, number, 3.0])
    with torch.no_grad():
        for function in (lambda x: torch.histc(x, 4) + 1, lambda x: torch.histc(x, 4, -1, torch.inf)):
            for call in (function, compiler(function)):
                with pytest.raises(RuntimeError, match=r"torch\.histc: range of .* is not finite"):
                    call(x)
