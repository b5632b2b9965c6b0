"""A layer of a transformer in training: what its forward, and the backward that dlc's partition makes, move.

The sizes are names: A sentences of B words; the layer is 64 wide and has 4 heads. traffic.py says how bytes
are counted, those of calls too: most of them are the calls'.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
import torch._dynamo

from dlc.report import collect
from examples.programs.layers import Block
from tests.structure.traffic import dim, traffic

ATTENTION = "aten._scaled_dot_product_flash_attention_for_cpu"

#: Graph, kernels, calls, bytes, and of them what is more than each parameter and result once.
TABLE: list[tuple[str, int, dict[str, int], str, str]] = [
    (
        "forward",  # both norms, the second with the residual before it; gelu; the last residual
        4,
        {"aten.addmm.default": 6, f"{ATTENTION}.default": 1},
        "10016*A*B + 199936",
        "7168*A*B",
    ),
    (
        "backward",  # of each norm, columns and rows; gelu; and columns alone, of three biases together
        8,
        {"aten.mm.default": 12, f"{ATTENTION}_backward.default": 1},
        "25912*A*B + 6656*((A*B + 63)//64) + 401408",
        "22808*A*B + 6656*((A*B + 63)//64) + 3840",
    ),
]


@pytest.fixture
def loops(compiler: Callable[..., Any]) -> dict[str, str]:
    """Of each graph."""
    x = torch.randn(3, 16, 64, requires_grad=True)
    for axis in (0, 1):
        torch._dynamo.mark_dynamic(x, axis)
    options = {"tier": "tcc", "cache": False, "products": "library"}
    compiled = compiler(Block(64, 4, causal=True), fullgraph=True, options=options)
    with collect() as reports:
        compiled(x).sum().backward()
    assert not any("error" in (report["partition"] or {}) for report in reports)
    return {report["kind"]: report["loops"] for report in reports}


def test_block(loops: dict[str, str]) -> None:
    assert list(loops) == [row[0] for row in TABLE]
    for kind, kernels, calls, moved, more in TABLE:
        found = traffic([loops[kind]])
        assert found.kernels == kernels
        assert Counter(found.calls) == calls
        assert found.bytes == sympy.expand(dim(moved))
        assert found.bytes - found.least == sympy.expand(dim(more))
