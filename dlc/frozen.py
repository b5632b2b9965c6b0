"""Which inputs of a graph option freeze is about: parameters and buffers of modules. See docs/options.md."""

from __future__ import annotations

from typing import Any

from torch._guards import TracingContext
from torch.fx import GraphModule

from . import _C


def frozen_of_dynamo(gm: GraphModule) -> list[int]:
    """Positions of the inputs that Dynamo read from modules; it marks them, for graphs that keep addresses."""
    nodes = gm.graph.find_nodes(op="placeholder")
    marks = (node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") for node in nodes)
    return [k for k, mark in enumerate(marks) if mark]


def frozen_of_aot() -> list[int]:
    """The same of the graph that AOTAutograd has compiled now."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return list(metadata.static_input_indices or []) if metadata is not None else []


def thaw(model: Any = None) -> None:
    tensors = None if model is None else [*model.parameters(), *model.buffers()]
    _C.thaw(tensors)
