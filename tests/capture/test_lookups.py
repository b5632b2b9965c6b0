"""Lookups by several indices, gather, and scatters that are a choice: eager's bits, eager's errors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.capture.whole import FLOATS, INTEGERS, check_whole, spread

pytestmark = pytest.mark.in_turn(2)

DTYPES = (*FLOATS, *INTEGERS, torch.bool)


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    g = torch.Generator().manual_seed(len(shape))
    return torch.randint(0, 100, shape, generator=g).to(dtype)


def index(*shape: int, low: int = 0, high: int = 3) -> Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(7))


X, Q = tensor(3, 4, 5), tensor(3, 4, 5, 6)
K, J = index(2, 1, low=-3), index(7, low=-3)

LOOKUPS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "side by side": (lambda x, i, j: x[i, j], (X, K, J)),
    "after an axis": (lambda x, i, j: x[:, i, j], (X, K, J)),
    "before an axis": (lambda x, i, j: x[i, j, :], (Q, J, J)),
    "in the middle": (lambda x, i, j: x[:, i, j] * 2, (Q, K, J)),
    "apart": (lambda x, i, j: x[i, :, j], (X, K, J)),
    "apart after an axis": (lambda x, i, j: x[:, i, :, j], (Q, K, J)),
    "apart by two": (lambda x, i, j: x[i, :, :, j], (Q, K, J)),
    "three": (lambda x, i, j: x[i, j, j], (X, K, J)),
    "of one element": (lambda x, i, j: x[i[0], j], (X, K, J)),
    "ellipsis": (lambda x, i, j: x[..., i, j], (Q, K, J)),
    "crossed": (lambda x, i, j: x[i, j], (X, K, J[None])),
    "crossed, of axes of one element": (lambda x, i, j: x[i, j], (X, K, J[None, None, None, None])),
    "crossed, one axis more": (lambda x, i, j: x[i, j], (X, K, J[None, None])),
    "crossed, of three": (lambda x, i, j: x[i[..., None], j[:2, None], j], (X, K, J)),
    "crossed, of 32 bits": (lambda x, i, j: x[:, i.int(), j] + 1, (X, K, J)),
    "crossed, of several": (lambda x, i, j: x[:, i[:1], j] * x[:, i[1:], j], (Q, K[:, :, None], J)),
    "of 32 bits": (lambda x, i, j: x[i.int(), j], (X, K, J)),
    "computed": (lambda x, i, j: (x * 2)[(i + j) // 2, j], (X, K, J)),
    "gather of rows": (lambda x, i: x.gather(1, i), (X, index(3, 9, 5))),
    "gather of columns": (lambda x, i: torch.gather(x, -1, i), (X, index(3, 4, 1))),
    "of all": (lambda x, i: torch.take(x, i), (X, index(4, 5, low=-60, high=60))),
    "one of several": (lambda x, i: F.one_hot(i.abs(), 5) * x[0, 0], (X, J)),
    "gather of some rows": (lambda x, i: x.gather(0, i), (X, index(8, 2, 3))),
    "gather of a vector": (lambda x, i: x.gather(0, i), (X[0, 0], index(8))),
    "scatter of a number": (lambda x, i: x.scatter(1, i, 7), (X, index(3, 1, 5))),
    "scatter of a column": (lambda x, i, s: x.scatter(2, i, s), (X, index(3, 4, 1), tensor(3, 4, 1))),
    "scatter of a wide source": (lambda x, i, s: x.scatter(2, i, s), (X, index(3, 4, 1), X)),
    "sum at an index": (lambda x, i, s: x.scatter_add(0, i, s), (X, index(1, 4, 5), tensor(1, 4, 5))),
}


@pytest.mark.parametrize("capture", ["aot", "direct"])
@pytest.mark.parametrize("name", LOOKUPS)
def test_lookup(name: str, capture: str) -> None:
    function, args = LOOKUPS[name]
    check_whole(function, *args, exact=True, capture=capture)


@pytest.mark.parametrize("name", LOOKUPS)
def test_lookup_in_every_dtype(name: str) -> None:
    """The function of the first tensor in each dtype, in one graph."""
    function, (x, *args) = LOOKUPS[name]

    def each(x: Tensor, *args: Any) -> list[Tensor]:
        sums = name == "sum at an index"
        cast = [(d, [a if a.dtype == torch.int64 else a.to(d) for a in args]) for d in DTYPES]
        return [function(x.to(d), *a) for d, a in cast if not (sums and d == torch.bool)]

    check_whole(each, x, *args, exact=True)


@pytest.mark.parametrize("name", LOOKUPS)
def test_lookup_of_strided_tensors(name: str) -> None:
    function, args = LOOKUPS[name]
    check_whole(function, *spread(args), exact=True, tier="gcc" if name in ("apart", "three") else "tcc")


SOME = ("gather of some rows", "scatter of a number", "scatter of a column", "scatter of a wide source",
        "sum at an index")  # fmt: skip


@pytest.mark.parametrize("name", [name for name in LOOKUPS if name not in SOME])
def test_lookup_of_any_size(name: str) -> None:
    function, args = LOOKUPS[name]
    check_whole(function, *args, exact=True, dynamic=True)


@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 4, 0), (1, 1, 1)])
def test_lookup_in_little(shape: tuple[int, ...]) -> None:
    """Tensors with no element, or one."""
    x, none, zero = tensor(*shape), index(0), torch.zeros(2, dtype=torch.int64)
    check_whole(lambda x, i: (x[i, i], x[i, :, i], x[:, i, i]), x, none, exact=True)
    if shape[0] and shape[1]:
        check_whole(lambda x, i: (x[i, i], x[:, i][i, -i]), x, zero, exact=True)
    rows = torch.zeros(shape[0], 1, shape[2], dtype=torch.int64)
    check_whole(lambda x, i: (x.gather(1, i), x.scatter(1, i, 3)), x, rows, exact=True)


@pytest.mark.parametrize("capture", ["aot", "direct"])
@pytest.mark.parametrize(
    ("function", "good", "bad"),
    [
        (lambda x, i: x[i, i.abs() * 0], [2, -3], [0, 3]),
        (lambda x, i: x[i * 0, i], [3, -4], [-5, 0]),
        (lambda x, i: x[i * 0, :, i], [4, -5], [0, 5]),
        (lambda x, i: x[i[:, None], i.abs() * 0], [2, -3], [0, 3]),
        (lambda x, i: x[i.abs()[:, None] * 0, i], [3, -4], [-5, 0]),
        (lambda x, i: x[:, i][i[:0]], [3, 0], [7, 0]),
        (lambda x, i: x.gather(1, i[:, None, None]), [3, 0], [-1, 0]),
        (lambda x, i: x.gather(1, i[:, None, None]), [3, 0], [0, 4]),
        (lambda x, i: x[:2, :, 0].scatter(1, i[:, None], 1), [3, 0], [4, 0]),
    ],
    ids=[
        "first",
        "second",
        "apart",
        "crossed first",
        "crossed second",
        "before none",
        "negative",
        "beyond",
        "scatter",
    ],
)
def test_an_index_out_of_range_is_an_error(
    compiler: Callable[..., Any], function: Callable[..., Any], good: list[int], bad: list[int], capture: str
) -> None:
    """Also where the position that is put together would be in range."""
    f = compiler(function, options={"capture": capture})
    with torch.no_grad():
        f(X, torch.tensor(good))
        with pytest.raises((IndexError, RuntimeError)) as eager:
            function(X, torch.tensor(bad))
        with pytest.raises(eager.type, match="out of range"):
            f(X, torch.tensor(bad))
