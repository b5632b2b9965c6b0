"""A source without elements for a part that has some: what was to raise was read with its elements."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from dlc.report import collect
from tests.tolerance import assert_same_bits

Scatter = Callable[[Tensor, Tensor], Tensor]
SCATTERS: dict[str, tuple[Scatter, int]] = {
    "slice": (lambda x, v: x.slice_scatter(v, 0, 1, 4), 3),
    "all of an axis": (lambda x, v: x.slice_scatter(v, 0), 5),
    "the first": (lambda x, v: x.slice_scatter(v, 0, 0, 2) * 2, 2),
    "diagonal": (lambda x, v: torch.diagonal_scatter(x[:, None] * x, v), 5),
    "diagonal above": (lambda x, v: torch.diagonal_scatter(x[:, None] * x, v, 3), 2),
}
MESSAGE = "expected src to have a size equal to the slice of self"


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64], ids=str)
@pytest.mark.parametrize("name", SCATTERS)
def test_sources(name: str, dtype: torch.dtype, tier: str, compiler: Callable[..., Any]) -> None:
    scatter, count = SCATTERS[name]

    def f(x: Tensor, y: Tensor) -> Tensor:
        return scatter(x, y[y.real > 4])

    x, y = torch.arange(-2, 3).to(dtype), torch.arange(5).to(dtype)
    run = compiler(f, fullgraph=True, options={"tier": tier})
    with collect() as reports, torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        fits = y + count
        assert_same_bits(run(-x, fits), f(-x, fits))
        for wrong in (y, y + count - 1, *([y + count + 1] if count < 5 else [])):
            with pytest.raises(RuntimeError, match=MESSAGE):
                f(x, wrong)
            with pytest.raises(RuntimeError, match=MESSAGE):
                run(x, wrong)
        assert_same_bits(run(-x, fits), f(-x, fits))
    calls = [call[0] for report in reports for call in report["calls"]]
    assert name == "slice" or not [call for call in calls if "scatter" in call]


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_bounds_of_truth_values(tier: str, compiler: Callable[..., Any]) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return x.slice_scatter(y[y > 4] > 6, 0, 1, 3)

    run = compiler(f, fullgraph=True, options={"tier": tier})
    x, y = torch.tensor([True, False, True, True]), torch.arange(5)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert_same_bits(run(x, y + 2), f(x, y + 2))
        with pytest.raises(RuntimeError, match=MESSAGE):
            run(x, y)
