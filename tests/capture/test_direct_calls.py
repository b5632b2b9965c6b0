"""Functions that run as the eager function, or give numbers, in a graph that is taken directly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.capture.direct import check, run

G = torch.Generator().manual_seed(6)
X, Y = torch.randn(4, 6, generator=G), torch.rand(3, 1, 6, generator=G)
SQUARE = torch.eye(4) * 3 + torch.rand(4, 4, generator=G)


def shapes(x: Tensor, y: Tensor) -> Any:
    shape = torch.broadcast_shapes(x.shape, y.shape, (6,))
    return x.expand(shape) + y, shape, torch.broadcast_shapes((2, 1), 3), torch.zeros(shape[:2]) + 1


def counts(x: Tensor, y: Tensor) -> Any:
    return x * torch.numel(y), torch.numel(x), y / x.numel()


def no_use(x: Tensor, y: Tensor) -> Any:
    torch.broadcast_shapes(x.shape, y.shape)
    return x + y


NUMBERS = {"shapes": shapes, "counts": counts, "no use": no_use}


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str, dynamic: bool | None) -> None:
    check(NUMBERS[name], X, Y, dynamic=dynamic)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(Exception, match=r"[Ss]hape mismatch|broadcast"), torch.no_grad():
        run(lambda x: x + sum(torch.broadcast_shapes(x.shape, (5,))), (X,), "auto")


ALGEBRA: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "inverse": lambda a, b: (torch.linalg.inv(a) @ b, torch.inverse(a) + 1),
    "solution": lambda a, b: torch.linalg.solve(a, b) * 2,
    "cholesky": lambda a, b: torch.linalg.cholesky(a @ a.t() + torch.eye(4)) + 1,
    "factors": lambda a, b: torch.linalg.lu_factor(a)[0] + torch.linalg.ldl_factor(a + a.t())[0],
    "of more axes": lambda a, b: torch.linalg.tensorinv(a.view(2, 2, 4)) + 1,
    "solution of more axes": lambda a, b: torch.linalg.tensorsolve(a.view(2, 2, 4), b[:2, :2]) + 1,
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ALGEBRA)
def test_linear_algebra(name: str, dynamic: bool | None) -> None:
    """The libraries' own bits: what is done beside is exact or one operation."""
    function = ALGEBRA[name]
    with torch.no_grad():
        results, _, reports = run(function, (SQUARE, X), "auto", dynamic=dynamic)
        eager = function(SQUARE, X)
    assert [r["kind"] for r in reports] == ["direct"], reports[0].get("indirect")
    for mine, theirs in zip(results, eager if isinstance(eager, tuple) else (eager,), strict=True):
        torch.testing.assert_close(mine, theirs, check_stride=True)


def test_a_singular_matrix_is_eagers_error() -> None:
    compiled = torch.compile(lambda a: torch.linalg.inv(a) + 1, backend="dlc", options={"capture": "direct"})
    with pytest.raises(torch.linalg.LinAlgError, match="singular"), torch.no_grad():
        compiled(torch.zeros(3, 3))


VIEWS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "at least one": lambda x, y: (torch.atleast_1d(x.sum()), torch.atleast_1d(x), torch.atleast_1d(y[0]) + 1),
    "at least two": lambda x, y: (torch.atleast_2d(x[0]) + 1, torch.atleast_2d(x[0]), torch.atleast_2d(y)),
    "at least three": lambda x, y: (torch.atleast_3d(x), torch.atleast_3d(x[0]) * 2, torch.atleast_3d(y) + 1),
    "of several": lambda x, y: [t + 1 for t in torch.atleast_2d(x, y[0, 0])],
    "products of sets": lambda x, y: torch.cartesian_prod(x[0], y[0, 0]) + 1,
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", VIEWS)
def test_views_and_sets(name: str, dynamic: bool | None) -> None:
    check(VIEWS[name], X, Y, dynamic=dynamic)


def test_in_place_without_a_builder() -> None:
    """`inplace=True` with arguments that no builder takes: the function runs without it."""
    check(lambda x: F.dropout(x * 2, 0.0, True, inplace=True) + 1, X)
    check(lambda x: F.rrelu(x * 2, 0.1, 0.1, inplace=True) + 1, X)
