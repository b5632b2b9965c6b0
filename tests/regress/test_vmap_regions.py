"""torch.vmap inside a graph: its region becomes operators on whole tensors; the rest is taken directly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, vmap
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

from dlc.report import collect
from tests.capture.direct import check, check_indirect, run

G = torch.Generator().manual_seed(3)
X, Y = torch.randn(4, 6, generator=G), torch.randn(4, 6, generator=G)
KEPT = torch.rand(4, 6, generator=G) > 0.3


def one_axis(x: Tensor, y: Tensor) -> Tensor:
    return vmap(lambda a, b: (a * b).sum() + a)(x, y) + 1


def other_axes(x: Tensor, y: Tensor) -> Tensor:
    return vmap(lambda a, b: a - b.exp(), in_dims=(1, 0), out_dims=1)(x, y.t()) * 2


def several_results(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    a, b = vmap(lambda a, b: (a.softmax(-1), a.max() - b), out_dims=(0, 1))(x, y)
    return a + 1, b * 2


def not_batched(x: Tensor, y: Tensor) -> Tensor:
    """y is of all elements; one result does not depend on the batch."""
    a, b = vmap(lambda a: (a @ y.t(), y.cos()))(x)
    return a.sum(-1) + b.sum((1, 2))


def nested(x: Tensor, y: Tensor) -> Tensor:
    return vmap(lambda a: vmap(lambda b: torch.maximum(a, b).sum())(y))(x) + 1


def one_after_another(x: Tensor, y: Tensor) -> Tensor:
    return vmap(torch.sin)(x) + vmap(lambda a: a.flip(0))(y)


def causal_mask(x: Tensor, kept: Tensor) -> Tensor:
    """As transformers writes masks: a function of four numbers, which looks one up."""

    def allowed(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return q.new_ones((), dtype=torch.bool) & (k <= q) & kept[b, k]

    places = [torch.arange(n) for n in (x.shape[0], 1, x.shape[1], x.shape[1])]
    for axis in (3, 2, 1, 0):
        allowed = vmap(allowed, in_dims=tuple(0 if k == axis else None for k in range(4)))
    with TransformGetItemToIndex():
        mask = allowed(*places)
    return torch.where(mask, x[:, None, :, None], -torch.inf)


CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    f.__name__: (f, (X, Y))
    for f in (one_axis, other_axes, several_results, not_batched, nested, one_after_another)
}
CASES["causal_mask"] = causal_mask, (X, KEPT)


@pytest.mark.parametrize("name", CASES)
def test_region(name: str) -> None:
    function, args = CASES[name]
    check(function, *args)


@pytest.mark.parametrize("name", ["several_results", "nested", "causal_mask"])
def test_region_of_any_size(name: str) -> None:
    function, args = CASES[name]
    check(function, *args, dynamic=True)


def test_one_program_for_all_sizes() -> None:
    options = {"strict": True, "capture": "direct"}
    compiled = torch.compile(causal_mask, backend="dlc", dynamic=True, options=options)
    with torch.no_grad(), collect() as reports:
        for rows, columns in ((4, 6), (3, 9), (7, 2)):
            args = torch.randn(rows, columns, generator=G), torch.rand(rows, columns, generator=G) > 0.5
            torch.testing.assert_close(compiled(*args), causal_mask(*args))
    assert [r["kind"] for r in reports] == ["direct"]


def test_what_a_region_decides_by_a_size_is_a_guard() -> None:
    """y has as many elements as a row in the first call; in the second it has one, for all of them."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        return vmap(lambda a: a + y)(x) * 2

    compiled = torch.compile(function, backend="dlc", dynamic=True, options={"strict": True})
    with torch.no_grad():
        for shape in ((6,), (1,)):
            y = torch.randn(shape, generator=G)
            torch.testing.assert_close(compiled(X, y), function(X, y))


def test_random_numbers_are_left() -> None:
    def function(x: Tensor) -> Tensor:
        return vmap(lambda a: a + torch.rand(()), randomness="different")(x)

    with torch.no_grad():
        _, _, reports = run(function, (X,), "auto")
    assert "writes to an argument or draws random numbers" in reports[0]["indirect"]


def test_writes_are_left() -> None:
    def function(x: Tensor) -> Tensor:
        return vmap(lambda a: a.clone().add_(1))(x) * 2

    assert "writes to an argument or draws random numbers" in check_indirect(function, X)


def test_a_region_that_fails_leaves_no_level_behind() -> None:
    test_random_numbers_are_left()
    assert torch._C._functorch.maybe_current_level() is None
