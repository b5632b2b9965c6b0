"""What programs that write to parts of arrays store: the parts, and no array a second time.

traffic.py says how bytes are counted. N is the number of rows of x and the length of v; rows have 64
floats. A copy in the plan is none of a kernel's, so no plan here has one.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy
import torch
import torch._dynamo
from torch import Tensor

from dlc.report import collect
from tests.structure.traffic import dim, traffic

ROW = 4 * 64


def part(x: Tensor, v: Tensor) -> None:
    x[2:5] = 1.0


def added(x: Tensor, v: Tensor) -> None:
    x[2:5, 8:16] += 1.0


def row(x: Tensor, v: Tensor) -> None:
    x[-1] = x[0] * 2


def column(x: Tensor, v: Tensor) -> None:
    x[:, 3] = v


def inner_column(x: Tensor, v: Tensor) -> None:
    x[1:-1, 3] = v[1:-1]


def several(x: Tensor, v: Tensor) -> None:
    x[0] = 0.0
    x[1, 8:16] = v[:8]
    x[:, 0] = v
    x[2:4] *= 2.0


def value(x: Tensor, v: Tensor) -> Tensor:
    """The first part is written with the copy, the others into it."""
    y = x.clone()
    y[3:5] = y[1:3] + 1
    y[0] = y[1]
    y[:, -1] += v
    return y


def read_between(x: Tensor, v: Tensor) -> Tensor:
    y = x.exp()
    s = y.sum(1)
    y[:, 1] = s
    t = y.sum(1)
    y[:, 2] = t
    return y


def kept(x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Both versions are returned."""
    y = x.exp()
    z = y.clone()
    z[1] = 0.0
    return y, z


def edges(x: Tensor, v: Tensor) -> None:
    x[0] = x[1]
    x[-1] = x[-2]


def stencil(x: Tensor, v: Tensor) -> None:
    """Ten rows, and once more: they are computed before they are stored."""
    x[1:11] = x[:10] + x[2:12]


def cache(x: Tensor, v: Tensor) -> Tensor:
    x.index_copy_(0, torch.tensor([3]), v[None, :64] * 2)
    return x.sum(1)


def eliminated(x: Tensor, v: Tensor) -> None:
    x[1:, 1:] -= x[1:, :1] * x[:1, 1:]


STORED: dict[Callable[[Tensor, Tensor], object], str] = {
    part: f"3*{ROW}",
    added: "3*8*4",
    row: f"{ROW}",
    column: "4*A",
    inner_column: "4*(A - 2)",
    several: f"{ROW} + 8*4 + 4*A + 2*{ROW}",
    value: f"{ROW}*A + {ROW} + 4*A",
    read_between: f"{ROW}*A + 4*4*A",
    kept: f"2*{ROW}*A",
    edges: f"2*{ROW}",
    stencil: f"2*10*{ROW}",
    cache: f"{ROW} + 4*A",
    eliminated: "4*63*(A - 1)",
}


@pytest.mark.parametrize("fn", STORED, ids=lambda fn: fn.__name__)
def test_stores_the_parts(fn: Callable[[Tensor, Tensor], object], capfd: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()
    x, v = torch.rand(96, 64), torch.rand(96)
    torch._dynamo.mark_dynamic(x, 0, min=80, max=4096)
    torch._dynamo.mark_dynamic(v, 0, min=80, max=4096)
    options = {"tier": "tcc", "cache": False, "strict": True, "dump": "plan"}
    compiled = torch.compile(fn, backend="dlc", fullgraph=True, options=options)
    with collect() as reports, torch.no_grad():
        compiled(x, v)
    found = traffic([report["loops"] for report in reports])
    assert found.stored == sympy.expand(dim(STORED[fn])), reports[0]["loops"]
    assert "copy %" not in capfd.readouterr().err
