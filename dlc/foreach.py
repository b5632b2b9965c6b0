"""Operators on lists of tensors, as torch.optim uses them, decomposed into operators on tensors.

Whole, each of them is a pass over all of its tensors in eager; apart, what is done to one tensor becomes
one kernel, and tensors of equal shape share it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

# What is done to one element of each list, where it is not the function of torch of that name.
_DIFFERENT: dict[str, Callable[..., Tensor]] = {
    "addcdiv": lambda x, a, b, value=1: torch.addcdiv(x, a, b, value=value),
    "addcmul": lambda x, a, b, value=1: torch.addcmul(x, a, b, value=value),
    "copy": lambda x, source, non_blocking=False: torch.ops.aten.copy(x, source, non_blocking),
    "clone": lambda x, memory_format=torch.preserve_format: torch.clone(x, memory_format=memory_format),
    "maximum": torch.clamp_min,
    "minimum": torch.clamp_max,
    "norm": lambda x, order=2, dtype=None: torch.linalg.vector_norm(x, order, dtype=dtype),
}

_SAME = """
    abs acos add asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp lgamma log
    log10 log1p log2 mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc
"""

# Their last operand is a tensor of all the numbers, whose values a graph does not know.
_NOT = ("addcdiv.Tensor", "addcmul.Tensor")


def _for_each(function: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    def each(*args: Any, **kwargs: Any) -> list[Tensor]:
        count = next(len(a) for a in args if isinstance(a, list | tuple))

        def at(k: int) -> Iterator[Any]:
            return (a[k] if isinstance(a, list | tuple) else a for a in args)

        return [function(*at(k), **kwargs) for k in range(count)]

    return each


@functools.cache
def decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Overload to the function that decomposes it."""
    functions = {name: getattr(torch, name) for name in _SAME.split()} | _DIFFERENT
    found: dict[OpOverload, Callable[..., Any]] = {}
    for name, function in functions.items():
        packet = getattr(torch.ops.aten, f"_foreach_{name}", None)
        for overload in packet.overloads() if packet else ():
            if "out" not in overload and f"{name}.{overload}" not in _NOT:
                found[getattr(packet, overload)] = _for_each(function)
    return found
