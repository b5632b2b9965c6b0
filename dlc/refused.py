"""Writes that eager refuses and a graph of operators does not: they have to raise eager's error.

Fake tensors do not look whether a write reads what it writes, nor, for some operators, whether the result
can be cast to the dtype of the tensor it goes to; and AOTAutograd makes new tensors of what is written. A
graph with such a write runs as eager runs it, up to the error.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

#: Operators whose fake tensors take any dtype, by the name without its underscore.
_UNCHECKED = {"add", "sub", "subtract", "mul", "multiply", "addcmul"}
_NAMES = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder",
}  # fmt: skip
_INPLACE = {getattr(operator, "i" + name): packet for name, packet in _NAMES.items()}


def _value(node: Any) -> Any:
    return map_arg(node, lambda n: n.meta.get("example_value"))


def _write(node: Node) -> tuple[str, Any, list[Any]] | None:
    """What a node writes: the operator, the tensor, and the operands; None when it writes nothing."""
    target = node.target
    if node.op == "call_function" and target is operator.setitem:
        return "copy", None, [node.args[2]]
    if node.op == "call_function" and target in _INPLACE:
        return _INPLACE[target], node.args[0], list(node.args[1:])  # type: ignore[index]
    if node.op == "call_method" and isinstance(target, str):
        if target.endswith("_") and not target.endswith("__"):
            return target[:-1], node.args[0], [*node.args[1:], *node.kwargs.values()]
        if target.startswith("__i") and target[3:-2] in _NAMES:
            return _NAMES[target[3:-2]], node.args[0], list(node.args[1:])
    if isinstance(node.kwargs.get("out"), Node):
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        return name, node.kwargs["out"], [v for k, v in node.kwargs.items() if k != "out"] + list(node.args)
    return None


def _part(node: Node) -> Any:
    """Where x[index] = .. writes to."""
    x, index = _value(node.args[0]), _value(node.args[1])
    items = index if isinstance(index, (tuple, list)) else [index]
    if not isinstance(x, Tensor) or any(isinstance(i, (Tensor, list)) for i in items):
        return None
    return x[index]


def _is_elementwise(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    kinds = packet.overloads() if packet else []
    return name == "copy" or any(torch.Tag.pointwise in getattr(packet, kind).tags for kind in kinds)


def _repeats(t: Tensor) -> bool:
    """Are there elements that lie at one place?"""
    sizes = zip(t.shape, t.stride(), strict=True)
    return any(isinstance(stride, int) and stride == 0 and size != 1 for size, stride in sizes)


def _overlap(a: Tensor, b: Tensor) -> bool:
    """Do two tensors in one storage have a part in common, but not all, by eager's rule?"""
    if a is b or not a.numel() or not b.numel():
        return False
    if not is_non_overlapping_and_dense_or_false(a) or not is_non_overlapping_and_dense_or_false(b):
        return False
    start, end = a.storage_offset(), a.storage_offset() + a.numel()
    other, other_end = b.storage_offset(), b.storage_offset() + b.numel()
    if start == other and end == other_end:
        return a.stride() != b.stride()
    return bool(start < other_end and other < end)


def _sources(operands: list[Any]) -> Iterator[Any]:
    for operand in operands:
        value = _value(operand)
        yield from value if isinstance(value, (tuple, list)) else (value,)


def _assigned(node: Node, source: Any) -> tuple[Any, Any]:
    """x[index] = source: the part of x and what is written there; None where they do not share a storage."""
    base = _value(node.args[0])
    if not isinstance(source, Tensor) or not isinstance(base, Tensor):
        return None, source
    if source.untyped_storage()._cdata != base.untyped_storage()._cdata:
        return None, source
    part = _part(node)
    fits = part is not None and source.dim() <= part.dim()
    return part, source.expand(part.shape) if fits else source


def _cannot_hold(name: str, dest: Tensor, sources: list[Any]) -> bool:
    """Does the result have a dtype that eager does not cast to the tensor's?"""
    if name not in _UNCHECKED or dest.is_complex():
        return False
    numbers = [1.0 if isinstance(s, torch.SymFloat) else s for s in sources]
    types = [torch.result_type(dest, s) for s in numbers if isinstance(s, (Tensor, int, float, complex))]
    return not all(torch.can_cast(t, dest.dtype) for t in types)


def _reads_what_it_writes(name: str, dest: Tensor, sources: list[Any]) -> bool:
    storage = dest.untyped_storage()._cdata
    shared = [s for s in sources if isinstance(s, Tensor) and s.untyped_storage()._cdata == storage]
    if not _repeats(dest) and not any(s is not dest for s in shared):
        return False
    return _is_elementwise(name) and (_repeats(dest) or any(_overlap(dest, s) for s in shared))


def _is_refused(node: Node) -> bool:
    found = _write(node)
    if not found:
        return False
    name, to, operands = found
    sources = list(_sources(operands))
    if to is None:
        dest, sources[0] = _assigned(node, sources[0])
    else:
        dest = _value(to)
    if not isinstance(dest, Tensor):
        return False
    return _cannot_hold(name, dest, sources) or _reads_what_it_writes(name, dest, sources)


def has_refused_write(gm: GraphModule) -> bool:
    """Does a graph of Dynamo's write what eager refuses to write?"""
    return any(_is_refused(node) for node in gm.graph.nodes)
