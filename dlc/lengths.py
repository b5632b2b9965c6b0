"""Sizes of attention that torch's fake tensors do not compare.

There are as many values as keys: eager does not look either, and reads what lies behind the shorter one. With
a cache both lengths are names, different ones, until a guard says that they are equal. So are the heads.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import guard_or_false
from torch.nn.functional import scaled_dot_product_attention


def equate(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Compares what is equal as a rule: torch guards what comes of it, but of sizes that depend on data."""
    if min(t.dim() for t in (query, key, value)) > 2:
        guard_or_false(query.shape[-3] == key.shape[-3])
        guard_or_false(key.shape[-3] == value.shape[-3])
    guard_or_false(key.shape[-2] == value.shape[-2])


def equate_lengths(gm: GraphModule) -> None:
    """The same, wherever Dynamo's graph has attention."""
    for node in gm.graph.find_nodes(op="call_function", target=scaled_dot_product_attention, sort=False):
        operands: list[Any] = [*node.args[:3]]
        operands += [node.kwargs.get(name) for name in ("query", "key", "value")[len(operands) :]]
        values = [o.meta.get("example_value") if isinstance(o, Node) else None for o in operands]
        if all(isinstance(v, Tensor) and v.dim() > 1 for v in values):
            equate(*values)
