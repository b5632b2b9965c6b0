"""Sums and writes at an index, several to one place: eager's bits, eager's errors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from dlc.report import collect
from tests.capture.whole import FLOATS, INTEGERS, check_whole, spread
from tests.tolerance import assert_same_bits

pytestmark = pytest.mark.in_turn(2)

G = torch.Generator().manual_seed(5)


def numbers(*shape: int) -> Tensor:
    """Small integers, which sum without rounding, so that the order does not show in narrow dtypes."""
    return torch.randint(-3, 4, shape, generator=G).float()


def reals(*shape: int) -> Tensor:
    return torch.randn(shape, generator=G)


def index(*shape: int, low: int = 0, high: int = 6) -> Tensor:
    return torch.randint(low, high, shape, generator=G)


X, Q = numbers(6, 33), numbers(6, 5, 6)
ROWS, NEGATIVE = index(40), index(40, low=-6)
V, W = numbers(40, 33), numbers(33, 40)
EACH, ALONG = index(40, 33), index(6, 70, high=33)
A, B = index(3, 1), index(4, low=-5, high=5)
aten = torch.ops.aten

SCATTERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rows": (lambda x, i, v: x.index_add(0, i, v), (X, ROWS, V)),
    "columns": (lambda x, i, v: x.t().index_add(1, i, v), (X, ROWS, W)),
    "scaled rows": (lambda x, i, v: torch.index_add(x, 0, i, v, alpha=2), (X, ROWS, V)),
    "written rows": (lambda x, i, v: x.index_copy(0, i, v), (X, ROWS, V)),
    "a number in rows": (lambda x, i: x.index_fill(0, i, 2), (X, NEGATIVE)),
    "reduced rows": (
        lambda x, i, v: [
            x.index_reduce(0, i, v, how, include_self=own)
            for how in ("prod", "mean", "amax", "amin") for own in (True, False)
        ],
        (X, index(9, high=5), numbers(9, 33)),
    ),
    "elements of columns": (lambda x, i, v: x.scatter_add(0, i, v), (X, EACH, V)),
    "elements of rows": (lambda x, i, v: x.scatter_add(1, i, v), (X, ALONG, numbers(6, 70))),
    "some elements": (lambda x, i, v: x.scatter_add(0, i[:9, :7], v), (X, EACH, V)),
    "written elements": (lambda x, i, v: x.scatter(0, i, v), (X, EACH, V)),
    "a written number": (lambda x, i: x.scatter(1, i, 3), (X, ALONG)),
    "products": (lambda x, i, v: aten.scatter(x, 0, i, v, reduce="multiply"), (X, EACH[:4], V)),
    "a vector": (lambda x, i, v: x.scatter_add(0, i, v), (X[0], index(90, high=33), numbers(90))),
    "one axis": (lambda x, i, v: x.index_put((i,), v, accumulate=True), (X, NEGATIVE, V)),
    "one axis, one row": (lambda x, i, v: x.index_put((i,), v[0], accumulate=True), (X, ROWS, V)),
    "one row": (lambda x, i, v: x.index_put((i[0],), v[0], accumulate=True), (X, NEGATIVE, V)),
    "two axes": (lambda x, i, j, v: x.index_put((i, j), v, accumulate=True), (Q, A, B, numbers(3, 4, 6))),
    "the last two": (
        lambda x, i, j, v: aten.index_put(x, [None, i, j], v, True), (Q, A, B, numbers(6, 3, 4))
    ),
    "two apart": (lambda x, i, j, v: aten.index_put(x, [i, None, j], v, True), (Q, A, B, numbers(3, 4, 5))),
    "two apart, later": (
        lambda x, i, j, v: aten.index_put(x, [None, i, None, j], v, True),
        (numbers(2, 6, 5, 6), A, B, numbers(3, 4, 2, 5)),
    ),
    "written places": (lambda x, i, j, v: x.index_put((i, j), v), (Q, A, B, numbers(6))),
    "places of all": (
        lambda x, i, v: x.put(i, v, accumulate=True), (X, index(7, 9, low=-40, high=190), numbers(63))
    ),
    "embedding": (
        lambda g, i: aten.embedding_dense_backward(g, i, 6, -1, False), (numbers(4, 10, 33), index(4, 10))
    ),
    "embedding with padding": (
        lambda g, i: aten.embedding_dense_backward(g, i, 6, 2, False), (numbers(4, 10, 33), index(4, 10))
    ),
    "a diagonal": (lambda x, v: x.diagonal_scatter(v, 2), (Q[0], numbers(4))),
    "a diagonal below": (lambda x, v: x.diagonal_scatter(v, -1, 0, 2) + 1, (Q, numbers(5, 5))),
    "a diagonal of the first": (lambda x, v: torch.diagonal_scatter(x, v, 0, 1, 0), (Q, numbers(6, 5))),
    "under a mask": (lambda x, v: x.masked_scatter(x > 0, v), (X, V)),
    "under a mask of rows": (lambda x, v: torch.masked_scatter(x, x[:, :1] > 0, v), (X, V)),
    "under a mask of more": (lambda x, v: torch.masked_scatter(x[0], x > 0, v[0]), (X[:, :5], V)),
    "under no mask": (lambda x, v: x.masked_scatter(x > 9, v), (X, V[0, :1])),
    "by strides": (lambda x, v: (x * 2).as_strided_scatter(v, (3, 5), (11, 2), 4), (X, numbers(3, 5))),
    "by strides, turned": (
        lambda x, v: (x + 0).as_strided_scatter(v.t(), (3, 5), (2, 9), 1), (X, numbers(5, 3))
    ),
    "by strides, one": (lambda x, v: (x + 0).as_strided_scatter(v, (), (), 41), (X, V[0, 0])),
    "by strides, none": (lambda x, v: (x + 0).as_strided_scatter(v[:0], (0, 5), (7, 1), 41), (X, V[:, :5])),
    "by strides of itself": (
        lambda x, v: x.as_strided_scatter(v, (4, 1, 6), (40, 3, 1)), (X, numbers(4, 1, 6))
    ),
    "of what is computed": (lambda x, i, v: (x * 2).index_add(0, i, v.relu() + 1) * 3, (X, ROWS, V)),
    "of sums": (lambda x, i, v: x.index_add(0, i, v + v.sum(1, keepdim=True)), (X, ROWS, V)),
    "of a scatter": (lambda x, i, v: x.index_add(0, i, v).index_copy(1, i[:9], v[:6, :9]), (X, ROWS, V)),
}  # fmt: skip
STRIDES = tuple(name for name in SCATTERS if name.startswith("by strides"))
STATIC = (*STRIDES, "some elements", "products", "places of all")  # sizes that are not known to fit otherwise
REDUCED = [(how, own) for how in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)]


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_scatter(name: str, tier: str) -> None:
    function, args = SCATTERS[name]
    check_whole(function, *args, exact=True, tier=tier)


@pytest.mark.parametrize("name", [n for n in SCATTERS if n not in STATIC])
def test_scatter_of_any_size(name: str) -> None:
    function, args = SCATTERS[name]
    check_whole(function, *args, exact=True, dynamic=True)


@pytest.mark.parametrize("name", [n for n in SCATTERS if n not in ("a number in rows", *STRIDES)])
def test_scatter_of_strided_tensors(name: str) -> None:
    function, args = SCATTERS[name]
    check_whole(function, *spread(args), exact=True)


@pytest.mark.parametrize("capture", ["aot", "direct"])
@pytest.mark.parametrize(("how", "own"), REDUCED)
def test_reductions(how: str, own: bool, capture: str) -> None:
    x, v = reals(6, 33), reals(40, 33)
    v[3, 5:9] = torch.nan
    v[4, 7:12] = torch.inf

    def function(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
        return x.scatter_reduce(0, i, v, how, include_self=own)

    check_whole(function, x, EACH.clamp(max=4), v, exact=True, capture=capture)


def test_every_dtype() -> None:
    def function(x: Tensor, i: Tensor, v: Tensor) -> list[Tensor]:
        some = [(x.to(d), v.to(d)) for d in (*FLOATS, *INTEGERS)]
        sums = [x.scatter_add(0, i, v) for x, v in some] + [x.index_add(0, i[:, 0], v) for x, v in some]
        most = [x.scatter_reduce(0, i, v, "amax", include_self=False) for x, v in some]
        writes = [x.scatter(0, i, v) for x, v in [*some, (x > 0, v > 0)]]
        return [*sums, *most, *writes, x.scatter_reduce(0, i, v, "mean").int()]

    check_whole(function, X, EACH, V, exact=True)


def test_the_order_is_that_of_the_index() -> None:
    """Sums that round: the bits of eager, whatever the number of threads."""
    x, v, i, wide = reals(50, 700), reals(3000, 700), index(3000, high=50), index(3000, 700, high=50)
    long = index(50, 900, high=700)

    def function(*args: Tensor) -> Any:
        x, v, i, wide, long = args
        zero = torch.zeros_like(x)
        added = x.scatter_add(0, wide, v), x.scatter_add(1, long, v.view(-1)[: 50 * 900].view(50, 900))
        return x.index_add(0, i, v), aten.embedding_dense_backward(v, i, 50, -1, False) + zero, added

    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            for tier in ("tcc", "gcc"):
                check_whole(function, x, v, i, wide, long, exact=True, tier=tier)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("shape", [(0, 33), (3, 0), (0, 0)])
def test_little(shape: tuple[int, ...]) -> None:
    x, none = torch.ones(shape), torch.zeros(0, dtype=torch.int64)
    rows = torch.zeros(0, shape[1])
    check_whole(lambda x, i, v: (x.index_add(0, i, v), x.index_copy(0, i, v)), x, none, rows, exact=True)
    check_whole(lambda x: x.masked_scatter(x > 2, torch.ones(3)), x, exact=True)


@pytest.mark.parametrize("capture", ["aot", "direct"])
@pytest.mark.parametrize("place", [-1, 6])
def test_an_index_out_of_range_is_an_error(compiler: Callable[..., Any], place: int, capture: str) -> None:
    """And nothing is written there: also of a tensor that has no element."""
    functions: list[Callable[..., Any]] = [
        lambda x, i, v: x.index_add(0, i, v),
        lambda x, i, v: x.index_copy(0, i, v),
        lambda x, i, v: x.scatter_add(0, i[:, None].expand(40, 33), v),
        lambda x, i, v: x.scatter(0, i[:, None].expand(40, 33), 2),
        lambda x, i, v: x.index_put((i - 6 * (i < 0),), v, accumulate=True),
    ]
    bad = ROWS.clone()
    bad[7] = place
    for function in functions:
        torch._dynamo.reset()
        f = compiler(function, options={"capture": capture})
        with torch.no_grad():
            assert_same_bits(f(X, ROWS, V), function(X, ROWS, V), "in range")
            with pytest.raises((IndexError, RuntimeError)) as eager:
                function(X, bad, V)
            with pytest.raises(eager.type):
                f(X, bad, V)
            with pytest.raises((IndexError, RuntimeError)):
                f(X[:0], ROWS, V)


def test_too_few_elements_for_a_mask_are_an_error(compiler: Callable[..., Any]) -> None:
    def function(x: Tensor, v: Tensor) -> Tensor:
        return x.masked_scatter(x > 0, v)

    with torch.no_grad():
        for error in (function, compiler(function)):
            with pytest.raises(RuntimeError):
                error(torch.ones(4), torch.ones(3))


@pytest.mark.parametrize("places", [((2, 3), (0, 2)), ((2, 3), (1, 1)), ((2, 3), (150, 30))])
def test_places_by_strides_that_are_left_to_eager(places: Any, compiler: Callable[..., Any]) -> None:
    """Some are written twice, or are not there."""

    def function(x: Tensor, v: Tensor) -> Tensor:
        return torch.as_strided_scatter(x + 1, v, *places, 0)

    x, v = reals(6, 33), reals(2, 3)
    compiled = compiler(function, options={"strict": False})
    try:
        theirs = function(x, v)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            compiled(x, v)
    else:
        assert_same_bits(compiled(x, v), theirs)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool, torch.complex64])
def test_places_by_strides_in_every_dtype(dtype: torch.dtype, compiler: Callable[..., Any]) -> None:
    def function(x: Tensor, v: Tensor) -> Tensor:
        return torch.as_strided_scatter(x.clone(), v, (3, 5), (11, 2), 4)

    x, v = numbers(6, 33).to(dtype), numbers(3, 5).to(dtype)
    torch.testing.assert_close(compiler(function)(x, v), function(x, v), rtol=0, atol=0)


STEPS = [(0, 0, None, 2), (0, 1, None, 2), (1, 1, -1, 2), (1, 3, 30, 3), (1, -20, None, 4), (0, 1, 5, 7)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize(("axis", "start", "end", "step"), STEPS)
def test_slices_with_a_step(
    axis: int, start: int, end: int | None, step: int, dtype: torch.dtype, dynamic: bool
) -> None:
    x = numbers(7, 33).to(dtype)
    part = x.transpose(0, axis)[start:end:step].transpose(0, axis)
    v = 2 - part if dtype != torch.bool else ~part

    def put(x: Tensor, v: Tensor) -> Tensor:
        return torch.slice_scatter(x, v, axis, start, end, step)

    if dtype == torch.complex64 and (dynamic or step > 4):
        return  # a choice is made of real numbers alone
    with torch._dynamo.config.patch(specialize_int=True):
        check_whole(put, x, v, dynamic=dynamic, exact=True)
        check_whole(put, spread(x), spread(v), dynamic=dynamic, exact=True)


def test_gradients_of_slices_with_a_step() -> None:
    def total(x: Tensor) -> Tensor:
        return (x[:, 1::2] * x[:, :-1:2]).sum() + x[::2].exp().sum() + x[1:-1:3].sin().sum()

    torch._dynamo.reset()
    mine = reals(6, 33).requires_grad_()
    theirs = mine.detach().clone().requires_grad_()
    with collect() as reports:
        torch.compile(total, backend="dlc", options={"strict": True, "tier": "tcc"})(mine).backward()
    assert [call for r in reports for call in r["calls"]] == []
    total(theirs).backward()
    torch.testing.assert_close(mine.grad, theirs.grad)
