"""Operators that stay whole in a graph although torch cannot trace them as they are.

torch finds a result's shape by the operator's meta kernel. Those that are written in C++ take lists of
integers, and raise an internal assertion for a list that holds a torch.SymInt. Of an operator without one
torch runs the kernel on zeros, which it cannot where sizes are symbols. Such an operator gets its node here,
with a result that is made in Python.

The code of a graph spells an overload as an attribute. `random.from` is no Python, and becomes another
overload.
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

from ._C import CaptureError


def _resized_backward(grad: Tensor, output_size: list[int], input_size: list[int], *_: Any) -> Tensor:
    """Of an image: as large as the operand of the forward, and laid out as the gradient."""
    return grad.new_empty(input_size).to(memory_format=suggest_memory_format(grad))


def _first_in_rows(x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


def _second_in_rows(_grad: Tensor, x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


_RESULTS: dict[OpOverload, Callable[..., Tensor]] = {
    torch.ops.aten._dirichlet_grad.default: _first_in_rows,
    torch.ops.aten._sample_dirichlet.default: _first_in_rows,
    torch.ops.aten._standard_gamma_grad.default: _first_in_rows,
    torch.ops.aten._upsample_bicubic2d_aa_backward.default: _resized_backward,
    torch.ops.aten.binomial.default: _first_in_rows,
    torch.ops.aten.fractional_max_pool3d_backward.default: _second_in_rows,
}


def _is_symbolic(leaf: Any) -> bool:
    """Of a tensor: it says so itself, as symbols that stand for one number alone read as that number."""
    symbolic: bool = (
        leaf._has_symbolic_sizes_strides if isinstance(leaf, Tensor) else isinstance(leaf, SymInt)
    )
    return symbolic


def _whole(overload: OpOverload, result: Callable[..., Tensor]) -> Callable[..., Any]:
    def traced(*args: Any, **kwargs: Any) -> Any:
        mode = get_proxy_mode()
        if mode is None or not any(_is_symbolic(leaf) for leaf in tree_leaves((args, kwargs))):
            return NotImplemented
        with disable_proxy_modes_tracing():
            made = result(*args, **kwargs)
        given, named = tree_map(mode.tracer.unwrap_proxy, (args, kwargs))
        proxy = mode.tracer.create_proxy("call_function", overload, given, named)
        return track_tensor_tree(made, proxy, constant=None, tracer=mode.tracer)

    return traced


def _greatest(dtype: torch.dtype) -> int:
    """The greatest number that x.random_(low, None) draws; of floats, the last with all before it."""
    if dtype.is_floating_point:
        return int(2 / torch.finfo(dtype).eps)
    return 1 if dtype == torch.bool else torch.iinfo(dtype).max


def _random_between(x: Tensor, low: int, high: int | None, **kwargs: Any) -> Tensor:
    """As randint_like, which draws the same numbers in the same order."""
    if high is None:
        high = _greatest(x.dtype) + 1
        if high >= 2**63:
            raise CaptureError(
                "random_(from, None) of 64-bit integers is not compiled: give an end, random_(from, to)"
            )
    if kwargs.get("generator") is not None:
        return NotImplemented
    made: Tensor = torch.ops.aten.randint_like.low_dtype(x, low, high)
    return made


def decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Overload to the function that puts it, or what draws the same, into the graph."""
    found = {overload: _whole(overload, result) for overload, result in _RESULTS.items()}
    return found | {getattr(torch.ops.aten.random, "from"): _random_between}
