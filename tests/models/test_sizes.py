"""Sizes at the edges: more than 2**31 elements, strides of every kind, numbers that do not recompile."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_leaves

from tests.tolerance import strides

LARGE = (1 << 31) + (1 << 20)
ROOM = 12 << 30


def free_memory() -> int:
    with open("/proc/meminfo") as f:
        rows = dict(line.split(":") for line in f)
    return int(rows["MemAvailable"].split()[0]) << 10


def close(mine: Any, theirs: Any) -> None:
    for a, b in zip(tree_leaves(mine), tree_leaves(theirs), strict=True):
        if isinstance(b, Tensor):
            torch.testing.assert_close(a, b)
            assert strides(a) == strides(b)
        else:
            assert a == b


@pytest.mark.skipif(free_memory() < ROOM, reason="needs 12 GiB of free memory")
@pytest.mark.in_turn(4)
def test_offsets_beyond_two_to_the_31(compiler: Callable[..., Any]) -> None:
    """The elements around the place where 32 bits end, and the last ones."""
    x = torch.zeros(LARGE, dtype=torch.int8)
    places = [0, (1 << 31) - 2, 1 << 31, LARGE - 5, LARGE - 1]
    for k, place in enumerate(places):
        x[place] = k + 1
    with torch.no_grad():
        y = compiler(lambda x: x * 2 + 1)(x)
        for place in places:
            assert y[place] == x[place] * 2 + 1
        assert y[(1 << 31) + 7] == 1
        del y
        strided = compiler(lambda x: x.view(2, -1).t()[-4:] + 1)(x)
        assert torch.equal(strided, x.view(2, -1).t()[-4:] + 1)
        assert compiler(lambda x: x[-3:].flip(0) - 1)(x).tolist() == [4, -1, -1]
        assert compiler(lambda x: x.view(-1, 1 << 20)[2048:].sum())(x) == x[1 << 31 :].sum()


BASE = torch.linspace(-3, 3, 240)
LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "dense": lambda: BASE[:48].clone().view(6, 8),
    "expanded": lambda: BASE[:8].clone().expand(6, 8),
    "expanded_column": lambda: BASE[:6].clone().view(6, 1).expand(6, 8),
    "whole_expanded": lambda: BASE[:1].clone().expand(6, 8),
    "overlapping": lambda: BASE.clone().as_strided((6, 8), (3, 1)),
    "same_strides": lambda: BASE.clone().as_strided((6, 8), (2, 2)),
    "gaps": lambda: BASE.clone().as_strided((6, 8), (17, 2)),
    "transposed": lambda: BASE[:48].clone().view(8, 6).t(),
    "offset": lambda: BASE.clone()[5:53].view(6, 8),
    "odd_offset": lambda: BASE.clone()[1:].as_strided((6, 8), (20, 1), 3),
    "sliced": lambda: BASE.clone().view(12, 20)[1::2, 3:19:2],
    "flipped": lambda: BASE[:48].clone().view(6, 8).flip(0, 1),
    "of_three_axes": lambda: BASE.clone().view(5, 6, 8)[2],
    "empty": lambda: BASE[:0].clone().view(0, 8),
    "one_row": lambda: BASE.clone().as_strided((1, 8), (999, 1)),
    "one_column": lambda: BASE.clone().as_strided((6, 1), (1, 77)),
}
SHARES_MEMORY = ("overlapping", "same_strides")  # two elements lie at one place: eager refuses to write there
READS: dict[str, Callable[[Tensor], Any]] = {
    "pointwise": lambda x: x.sin() * 2 + x,
    "rows": lambda x: x.softmax(-1) + x.sum(0),
    "views": lambda x: (x.t().reshape(-1) + 1, x.flip(0)[:, ::2] * 2, x.unsqueeze(0) - 1),
}


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_of_inputs(layout: str, dynamic: bool, compiler: Callable[..., Any]) -> None:
    def function(x: Tensor) -> list[Any]:
        return [read(x) for read in READS.values()]

    with torch.no_grad():
        compiled = compiler(function, fullgraph=True, dynamic=dynamic)
        for _ in range(2):
            x = LAYOUTS[layout]()
            close(compiled(x), function(x))


@pytest.mark.parametrize(
    "layout", [name for name in LAYOUTS if "expanded" not in name and name not in SHARES_MEMORY]
)
def test_writes_to_inputs(layout: str, compiler: Callable[..., Any]) -> None:
    """Nothing between the elements changes."""

    def function(x: Tensor) -> Tensor:
        x.mul_(2)
        return x + 1

    with torch.no_grad():
        mine, theirs = LAYOUTS[layout](), LAYOUTS[layout]()
        close(compiler(function)(mine), function(theirs))
        whole = [torch.as_strided(t, (t.untyped_storage().nbytes() // 4,), (1,), 0) for t in (mine, theirs)]
        close(*whole)


NUMBERS: dict[str, Callable[..., Any]] = {
    "chunk": lambda x, k, f: [part * 2 for part in x.chunk(3, 0)],
    "full": lambda x, k, f: torch.full((x.shape[0], 3), 2.5) + x[:, :1],
    "arange": lambda x, k, f: torch.arange(x.shape[0]) * 2,
    "integer": lambda x, k, f: x * k + k,
    "float": lambda x, k, f: x * f + f,
    "mean": lambda x, k, f: x.sum(0) / x.shape[0] + x.shape[0] ** 0.5,
    "condition": lambda x, k, f: x + (x.shape[0] > 2) * 2.0,
    "half": lambda x, k, f: x[: x.shape[0] // 2] * (x.shape[0] % 2),
    "repeat": lambda x, k, f: x.repeat(k, 1) + k,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_do_not_recompile(name: str, compiler: Callable[..., Any]) -> None:
    """The second call compiles for all numbers, the others none.  No chunk has one row, as Dynamo guards."""
    function, graphs = NUMBERS[name], []
    compiled = compiler(function)
    with torch.no_grad():
        for k in (6, 8, 9, 12, 14, 31):
            x = torch.linspace(-1, 1, 4 * k).view(k, 4).clone()
            close(compiled(x, k - 2, k * 0.5), function(x, k - 2, k * 0.5))
            graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[-1] <= 2, f"compiled again: {graphs} graphs"


def test_rows_of_a_known_multiple(compiler: Callable[..., Any]) -> None:
    """torch guards that the rows divide; another count compiles once more."""

    def function(x: Tensor) -> Tensor:
        return x.view(-1, 4, x.shape[1]).sum(1) if x.shape[0] % 4 == 0 else x * 2

    compiled = compiler(function, dynamic=True)
    with torch.no_grad():
        for rows in (8, 12, 20, 7, 9, 16):
            x = torch.linspace(-1, 1, rows * 5).view(rows, 5).clone()
            close(compiled(x), function(x))
    assert counters["stats"]["unique_graphs"] == 2
