"""Operators that stay whole in a graph although torch cannot trace them with symbolic sizes.

torch finds a result's shape by the operator's meta kernel. Those that are written in C++ take lists of
integers, and raise an internal assertion for a list that holds a torch.SymInt. Such an operator gets its node
here, with a result that is made in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import SymInt, Tensor
from torch._ops import OpOverload
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_proxy_mode,
    track_tensor_tree,
)
from torch.utils._pytree import tree_leaves, tree_map


def _resized_backward(grad: Tensor, output_size: list[int], input_size: list[int], *_: Any) -> Tensor:
    """Of an image: as large as the operand of the forward, and laid out as the gradient."""
    return grad.new_empty(input_size).to(memory_format=suggest_memory_format(grad))


_RESULTS: dict[OpOverload, Callable[..., Tensor]] = {
    torch.ops.aten._upsample_bicubic2d_aa_backward.default: _resized_backward,
}


def _whole(overload: OpOverload, result: Callable[..., Tensor]) -> Callable[..., Any]:
    def traced(*args: Any, **kwargs: Any) -> Any:
        mode = get_proxy_mode()
        if mode is None or not any(isinstance(leaf, SymInt) for leaf in tree_leaves((args, kwargs))):
            return NotImplemented
        with disable_proxy_modes_tracing():
            made = result(*args, **kwargs)
        given, named = tree_map(mode.tracer.unwrap_proxy, (args, kwargs))
        proxy = mode.tracer.create_proxy("call_function", overload, given, named)
        return track_tensor_tree(made, proxy, constant=None, tracer=mode.tracer)

    return traced


def decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Overload to the function that puts it into the graph."""
    return {overload: _whole(overload, result) for overload, result in _RESULTS.items()}
