"""Option freeze: which inputs of a graph it is about, and forgetting what it keeps. See docs/options.md."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from . import _C


@torch._disable_dynamo
def _thaw_groups(groups: list[dict[str, Any]]) -> None:
    _C.thaw([parameter for group in groups for parameter in group["params"]])


def _after_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    """torch does not count the writes of its fused optimisers, which Dynamo does not trace either."""
    if any(group.get("fused") for group in optimizer.param_groups):
        _thaw_groups(optimizer.param_groups)


@functools.cache
def watch_optimizers() -> None:
    register_optimizer_step_post_hook(_after_step)


def frozen_of_dynamo(gm: GraphModule) -> list[int]:
    """Positions of the inputs that Dynamo has read from modules: it marks those whose addresses stay."""
    watch_optimizers()
    nodes = gm.graph.find_nodes(op="placeholder")
    marks = (node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") for node in nodes)
    return [k for k, mark in enumerate(marks) if mark]


def frozen_of_aot() -> list[int]:
    """The same of the graph that AOTAutograd compiles now."""
    watch_optimizers()
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return list(metadata.static_input_indices or []) if metadata is not None else []


def _tensors(model: torch.nn.Module) -> list[torch.Tensor]:
    attributes = [value for module in model.modules() for value in vars(module).values()]
    tensors = [value for value in attributes if isinstance(value, torch.Tensor)]
    return [*model.parameters(), *model.buffers(), *tensors]


def thaw(of: Any) -> None:
    _C.thaw(None if of is None else [of] if isinstance(of, torch.Tensor) else _tensors(of))
