"""Running sums, products and extremes: eager's bits."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from dlc.report import collect
from tests.capture.whole import FLOATS, INTEGERS, check_whole

pytestmark = pytest.mark.in_turn(2)


def numbers(*shape: int) -> Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    x[..., 3, :] = -0.0
    x[..., 5, 0] = torch.inf
    x[..., 7, 1:3] = torch.nan
    x[..., 0, 4] = -torch.inf
    x[..., 9:12, 5] = 2.5
    return x


X, Q = numbers(20, 33), numbers(3, 20, 16)
INDEX = torch.randint(-3, 4, (20, 33), generator=torch.Generator().manual_seed(2))

SCANS: dict[str, tuple[Callable[..., Any], Tensor]] = {
    "sum": (lambda x: x.cumsum(0), X),
    "sum in the middle": (lambda x: torch.cumsum(x, -2), Q),
    "sum over the first": (lambda x: torch.cumsum(x, 0), Q),
    "product": (lambda x: x.cumprod(0), X),
    "largest": (lambda x: tuple(torch.cummax(x, 0)), X),
    "smallest": (lambda x: tuple(x.cummin(-2)), Q),
    "largest of integers": (lambda x: tuple(x.cummax(0)), INDEX),
    "sum of truth values": (lambda x: (x > 0).cumsum(0), INDEX),
    "sum of small integers": (lambda x: x.to(torch.int8).cumsum(0), INDEX),
    "sum in another dtype": (lambda x: x.cumsum(0, dtype=torch.float64), X),
    "between others": (lambda x: x.relu().cumsum(0).clamp(max=5) * 2, X),
    "of a scan": (lambda x: x.cumsum(0).cumprod(0), X),
    "of turned rows": (lambda x: x.flip(0).cumsum(0).flip(0), X),
}


@pytest.mark.parametrize("capture", ["aot", "direct"])
@pytest.mark.parametrize("name", SCANS)
def test_scan(name: str, capture: str) -> None:
    function, x = SCANS[name]
    check_whole(function, x, exact=True, capture=capture)


@pytest.mark.parametrize("name", SCANS)
def test_scan_of_strided_tensors(name: str) -> None:
    function, x = SCANS[name]
    wide = torch.empty(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)[..., ::2].copy_(x)
    check_whole(function, wide, exact=True, tier="gcc" if name in ("sum", "smallest") else "tcc")


@pytest.mark.parametrize("name", SCANS)
def test_scan_of_any_size(name: str) -> None:
    function, x = SCANS[name]
    check_whole(function, x, exact=True, dynamic=True)


def test_scan_in_every_dtype() -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [
            f(x.to(d)) for d in (*FLOATS, *INTEGERS) for f in (lambda t: t.cumsum(0), lambda t: t.cumprod(0))
        ]

    check_whole(function, INDEX, exact=True)
    check_whole(lambda x: [x.to(d).cummin(0)[0] for d in (*FLOATS, *INTEGERS)], INDEX, exact=True)


@pytest.mark.parametrize("shape", [(0, 33), (1, 33), (3, 0, 17)])
def test_scan_of_little(shape: tuple[int, ...]) -> None:
    check_whole(lambda x: x.cumsum(-2) + 1, torch.ones(shape), exact=True)


def test_a_long_scan_on_any_number_of_threads() -> None:
    """The order is that of the elements, so nothing depends on how the columns are divided."""
    x = torch.randn(5000, 700, generator=torch.Generator().manual_seed(3))
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            check_whole(lambda x: x.cumsum(0), x, exact=True)
    finally:
        torch.set_num_threads(threads)


ROWS = {
    "sum": lambda x: x.cumsum(-1),
    "product": lambda x: x.cumprod(1),
    "largest": lambda x: tuple(x.cummax(-1)),
    "smallest": lambda x: tuple(torch.cummin(x, 1)),
    "between others": lambda x: (x.clamp(max=3) * 2).cumsum(-1).relu() + x,
    "two of one": lambda x: (x.cumsum(1), x.abs().cumsum(1) - x),
    "of a scan": lambda x: (x.abs() + 1).cumsum(1).cumprod(1),
    "along two axes": lambda x: x.cumsum(1).cumsum(0),
    "of turned rows": lambda x: x.flip(1).cumsum(1).flip(1) * x,
    "of all": lambda x: x.reshape(-1).cumsum(0),
    "in another dtype": lambda x: x.cumsum(1, dtype=torch.float64),
    "of rows of a sum": lambda x: (x / x.abs().sum(1, keepdim=True)).cumsum(1),
    "with what it reads elsewhere": lambda x: x.cumsum(1)[:, 1:] - x[:, :-1],
    "padded": lambda x: torch.nn.functional.pad(x, (1, 2)).cumsum(1),
    "padded after": lambda x: torch.nn.functional.pad(x.cumsum(1), (1, 0)) * 2,
    "spread": lambda x: x[:, :1].expand(-1, 40).cumsum(1),
}
WIDE = numbers(11, 300)


@pytest.mark.parametrize("capture", ["aot", "direct"])
@pytest.mark.parametrize("name", ROWS)
def test_scan_along_the_innermost_axis(name: str, capture: str) -> None:
    check_whole(ROWS[name], WIDE, exact=name != "of rows of a sum", capture=capture)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("name", ROWS)
def test_scan_of_any_rows(name: str, tier: str) -> None:
    check_whole(ROWS[name], WIDE[:5], exact=name != "of rows of a sum", dynamic=True, tier=tier)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_scan_of_more_than_caches_hold(tier: str, dynamic: bool) -> None:
    """32 MiB: eight rows at a time past the caches, of whole lines and of others, and what is left."""
    for shape in [(2051, 4096), (2051, 4099)]:
        x = torch.randn(shape, generator=torch.Generator().manual_seed(5))
        check_whole(lambda x: x.cumsum(1), x, exact=True, tier=tier, dynamic=dynamic)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_scan_in_every_dtype_along_the_innermost_axis(tier: str) -> None:
    x = torch.randint(-3, 4, (9, 70), generator=torch.Generator().manual_seed(4))

    def function(x: Tensor) -> list[Tensor]:
        kinds = (torch.cumsum, torch.cumprod, lambda t, d: t.cummax(d)[0], lambda t, d: t.cummin(d)[1])
        return [
            f(x.to(d), 1)
            for d in (*FLOATS, *INTEGERS, torch.bool)
            for f in kinds[: 2 if d == torch.bool else 4]
        ]

    check_whole(function, x, exact=True, tier=tier)


def test_the_last_of_equals_and_the_sign_of_zero() -> None:
    x = torch.tensor([[0.0, -0.0, 0.0, -1.0, -0.0], [-0.0, 0.0, torch.nan, 1.0, torch.nan]])
    check_whole(lambda x: (*x.cummax(1), *x.cummin(1), *x.t().cummax(0)), x, exact=True)


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (1, 1), (4, 1), (0,), (1,)])
def test_scan_of_little_along_the_last_axis(shape: tuple[int, ...]) -> None:
    x = torch.full(shape, -0.0)
    check_whole(lambda x: (x.cumsum(-1) + 1, x.cumprod(-1) * 2), x, exact=True)
    check_whole(lambda x: (x.cumsum(-1), *x.cummax(-1)), x, exact=True)


def test_scan_of_one_number(compiler: Any) -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [x.cumsum(0), x.cumprod(-1), x.exp().cumsum(0) * 2, *x.cummax(0), x.to(torch.int8).cumsum(0)]

    x = torch.tensor(-0.0)
    with torch.no_grad():
        for a, b in zip(compiler(function)(x), function(x), strict=True):
            assert torch.equal(a, b) and a.dtype == b.dtype and a.signbit() == b.signbit()


def test_forward_and_gradient_are_a_kernel_each() -> None:
    def function(x: Tensor) -> Tensor:
        return x.exp().where(x > -1, 0).cumsum(1) * 2

    torch._dynamo.reset()
    x = WIDE.nan_to_num(0, 2, -2).requires_grad_()
    with collect() as reports:
        torch.compile(function, backend="dlc", options={"strict": True, "tier": "tcc"})(x).sum().backward()
    assert [(r["kernel_count"], len(r["calls"])) for r in reports] == [(1, 0), (1, 0)]
    mine, x.grad = x.grad, None
    function(x).sum().backward()
    torch.testing.assert_close(mine, x.grad)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_logarithms_of_sums(tier: str) -> None:
    x = numbers(9, 70) * 30
    x[1], x[2, :3], x[3, 5:8] = -torch.inf, torch.inf, -torch.inf
    kinds = [lambda x, d=d: x.to(d).logcumsumexp(1) for d in (torch.float32, torch.float64, torch.bfloat16)]
    check_whole(
        lambda x: [*(f(x) for f in kinds), x.logcumsumexp(0), x.exp().logcumsumexp(1) * 2], x, tier=tier
    )
    check_whole(lambda x: torch.logcumsumexp(x, -1), x[:, :5], tier=tier, dynamic=True)


def test_a_gradient_of_logarithms_of_sums(compiler: Any) -> None:
    x = X.nan_to_num(0, 2, -2).requires_grad_()
    w = torch.linspace(-1, 1, 33)
    (compiler(lambda x: x.logcumsumexp(1) * w)(x)).sum().backward()
    mine, x.grad = x.grad, None
    (x.logcumsumexp(1) * w).sum().backward()
    torch.testing.assert_close(mine, x.grad)
