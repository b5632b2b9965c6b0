"""Sizes and numbers that depend on data: calls bind them, and what follows is compiled with them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo import config
from torch.utils._pytree import tree_leaves

import dlc
from dlc.report import collect

X = torch.linspace(-1, 1, 48).view(6, 8).clone()
INPUTS = (X, X.flip(0).sin(), -X.abs(), X.abs() + 1)  # no element is taken of the third, all of the fourth


@pytest.fixture(autouse=True)
def captured() -> Iterator[None]:
    with config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def slice_of(x: Tensor, n: Tensor) -> Tensor:
    k = (n * 1).item()
    torch._check(k >= 0)
    torch._check(k <= 6)
    return x[:k].sin()


def filled(n: Tensor) -> Tensor:
    k = (n * 1).item()
    torch._check(k >= 0)
    return torch.full((k,), 2.5) + torch.arange(k)


def equal_slices(x: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, Any]:
    a, b = (n * 1).item(), (m * 1).item()
    torch._check(a == b)
    torch._check(a >= 0)
    torch._check(a <= 6)
    return x[:a] + x[:b], a


def expected(x: Tensor, n: Tensor) -> Tensor:
    k = (n * 1).item()
    torch._check(k == 3)
    return x + k


def split(x: Tensor, n: Tensor) -> list[Tensor]:
    a, b = (n * 1).tolist()
    torch._check(a >= 0)
    torch._check(b >= 0)
    torch._check(a + b == 6)
    return [part * 2 for part in torch.split(x, [a, b])]


def listed(x: Tensor, n: Tensor) -> Tensor:
    a, b = (n * 1).tolist()
    return x * a + b


def kept(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sums are in memory before the call that binds a size, and read after it."""
    sums = x.cumsum(0)
    found = (sums > 0).nonzero()
    return sums * found.sum(), found * 2


def experts(x: Tensor, gate: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for k in range(2):
        (rows,) = (gate == k).nonzero(as_tuple=True)
        out = out.index_add(0, rows, (x[rows] * (k + 1)).tanh())
    return out


def truth(x: Tensor, n: Tensor) -> Tensor:
    return n.logical_not().item() * x


def chosen(x: Tensor, n: Tensor) -> Tensor:
    k = (n * 1).item()
    return torch.cond(k > 3, lambda x: x * 2, lambda x: x - 1, (x,))


def nested(x: Tensor) -> tuple[Tensor, ...]:
    a = x[x > 0]
    b = a[a > 0.5]
    c = b[b > 0.75]
    return a.sum(), b * 2, c.sin()


def many(x: Tensor) -> Tensor:
    """More combinations of sizes than a plan keeps ready."""
    total = x.sum()
    for k in range(10):
        total = total + x[x > k * 0.1].sum()
    return total


def counted(n: Tensor) -> tuple[Tensor, ...]:
    k = (n * 1).item()
    torch._check_is_size(k)
    return torch.arange(k) * 2, torch.zeros(k, 3), torch.eye(4)[:, :1].expand(4, k) + 1


n = torch.tensor
FOUND: dict[str, Callable[..., Any]] = {
    "mask": lambda x: x[x > 0].sin() * 2,
    "nonzero": lambda x: x.nonzero() * 2,
    "nonzero_tuple": lambda x: [i * 2 for i in x.nonzero(as_tuple=True)],
    "masked_select": lambda x: torch.masked_select(x, x > 0).sum(),
    "unique": lambda x: torch.unique((x * 3).long()) + 1,
    "unique_counts": lambda x: torch.unique((x * 3).long(), return_inverse=True, return_counts=True),
    "two": lambda x: (x[x > 0].exp(), x[x < 0].exp(), x.sin() + 1),
    "item": lambda x: x * x.sum().item(),
    "kept": kept,
    "nested": nested,
    "many": many,
    "product": lambda x: (x[x.sum(1) > 0] @ x.t()).relu().sum(0),
    "softmax": lambda x: x[x.sum(1) > 0].softmax(0),
    "joined": lambda x: torch.cat([x[x > 0], x[x < 0]]) * 2,
    "put": lambda x: torch.zeros_like(x).index_put((x > 0).nonzero(as_tuple=True), x[x > 0].exp()),
    "truncated": lambda x: x * int(x.sum().item() * 3),
}
NUMBERS: dict[str, tuple[Callable[..., Any], list[tuple[Tensor, ...]]]] = {
    "slice": (slice_of, [(X, n(3)), (X, n(6)), (X, n(0))]),
    "full": (filled, [(n(3),), (n(0),), (n(9),)]),
    "repeat": (
        lambda x, r: torch.repeat_interleave(x, r, dim=0) * 2,
        [(X, n([1, 2, 0, 3, 1, 1])), (X, n([0] * 6))],
    ),
    "tolist": (listed, [(X, n([2, 3])), (X, n([-2, 5]))]),
    "returned": (lambda m: (m * 1).item() + 1, [(n(3),), (n(-8),)]),
    "equal": (equal_slices, [(X, n(3), n(3)), (X, n(2), n(2))]),
    "expected": (expected, [(X, n(3))]),
    "counted": (counted, [(n(3),), (n(0),), (n(8),)]),
    "chosen": (chosen, [(X, n(3)), (X, n(7))]),
    "greater": (lambda m: (m * 1).item() > 3, [(n(3),), (n(7),)]),
    "not": (lambda m: m.logical_not().item(), [(n(True),), (n(False),)]),
    "truth": (truth, [(X, n(True)), (X, n(False))]),
    "split": (split, [(X, n([2, 4])), (X, n([6, 0]))]),
    "experts": (experts, [(X, n([1, 0, 1, 1, 0, 2])), (X, n([2] * 6))]),
}
RAISES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], tuple[Tensor, ...]]] = {
    "above": (slice_of, (X, n(3)), (X, n(7))),
    "below": (slice_of, (X, n(3)), (X, n(-1))),
    "negative": (filled, (n(3),), (n(-2),)),
    "another": (expected, (X, n(3)), (X, n(4))),
    "unequal": (equal_slices, (X, n(3), n(3)), (X, n(2), n(3))),
    "sum": (split, (X, n([2, 4])), (X, n([2, 3]))),
}


def assert_equal(mine: Any, theirs: Any) -> None:
    for a, b in zip(tree_leaves(mine), tree_leaves(theirs), strict=True):
        if isinstance(b, Tensor):
            torch.testing.assert_close(a, b, check_stride=b.numel() > 0)
        else:
            assert a == b


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, dynamic: bool, compiler: Callable[..., Any]) -> None:
    function = FOUND[name]
    compiled = compiler(function, fullgraph=True, dynamic=dynamic)
    with collect() as reports:
        for x in INPUTS:
            assert_equal(compiled(x), function(x))
    assert [report["kernel_count"] >= 1 for report in reports] == [True]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str, compiler: Callable[..., Any]) -> None:
    function, cases = NUMBERS[name]
    compiled = compiler(function, fullgraph=True)
    with collect() as reports:
        for args in cases * 2:
            assert_equal(compiled(*args), function(*args))
    assert len([r for r in reports if r["kind"] != "body"]) == 1


@pytest.mark.parametrize("name", RAISES)
def test_what_the_graph_excludes_raises(name: str, compiler: Callable[..., Any]) -> None:
    """What torch concludes from an assertion is checked where the number is read."""
    function, right, wrong = RAISES[name]
    compiled = compiler(function, fullgraph=True)
    assert_equal(compiled(*right), function(*right))
    before = dlc.counters()["graphs"]
    for _ in range(2):
        with pytest.raises(RuntimeError):
            function(*wrong)
        with pytest.raises(RuntimeError, match=r"excludes|assertion failed"):
            compiled(*wrong)
    assert_equal(compiled(*right), function(*right))
    assert dlc.counters()["graphs"] == before, "compiled again"


GRADIENTS = {
    "mask": (FOUND["mask"], (X,)),
    "item": (FOUND["item"], (X,)),
    "slice": (slice_of, (X, n(3))),
    "repeat": (NUMBERS["repeat"][0], (X, n([1, 2, 0, 3, 1, 1]))),
    "experts": (experts, (X, n([1, 0, 1, 1, 0, 2]))),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, compiler: Callable[..., Any]) -> None:
    function, (x, *rest) = GRADIENTS[name]
    found = []
    for call in (compiler(function, fullgraph=True), function):
        leaf = x.clone().requires_grad_()
        y = call(leaf, *rest)
        y.square().sum().backward()
        found.append((y, leaf.grad))
    assert_equal(*found)


def test_no_whole_number(compiler: Callable[..., Any]) -> None:
    compiled = compiler(FOUND["truncated"], fullgraph=True)
    assert_equal(compiled(X), FOUND["truncated"](X))
    for bad, error in ((torch.nan, ValueError), (torch.inf, OverflowError)):
        with pytest.raises(error):
            compiled(X + bad)
    assert_equal(compiled(X + 1), FOUND["truncated"](X + 1))
