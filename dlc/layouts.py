"""Fake tensors as eager's tensors are in memory.

For a few operators torch's fake tensors have their axes in another order than eager's results: operands of
different layouts meet, or are dense in no usual order. And statistics of halves whose norm has float32
parameters are float32. csrc/capture/walk/result_layout.c knows of both; here the graph is told. The node gets
a fake tensor that is like eager's, and operators after it are asked for theirs again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import TracingContext
from torch._ops import OpOverload
from torch._prims_common import (
    compute_elementwise_output_logical_to_physical_perm,
    is_contiguous_or_false,
    is_non_overlapping_and_dense_or_false,
)
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from . import _C

log = logging.getLogger("dlc")

T = TypeVar("T")


def laid_as_eager(gm: GraphModule, take: Callable[[], T]) -> T:
    """take(), which walks the graph of gm, again after those nodes whose fake tensors it finds wrong.

    A walk finds all of them but for those that read another one's results.
    """
    looked_at = set(_displaced(gm))
    while True:
        try:
            return take()
        except _C.CaptureError:
            found = [node for node in _displaced(gm) if node not in looked_at]
            if not found:
                raise
            looked_at.update(found)
            if not _lay(gm, found) and len(found) > 1:
                for node in found:
                    _lay(gm, [node])


#: What makes rows in eager alone.
_IN_ROWS = ("max_pool1d", "rrelu")


def made_in_rows(gm: GraphModule) -> GraphModule:
    """gm, Dynamo's, in whose graph operators that make rows in eager alone are followed by `contiguous`.

    max_pool1d without gradients has a kernel of its own there, which makes rows. AOTAutograd traces the one
    with gradients, whose results lie as their operand does; no aten graph tells the two apart. Nor does
    rrelu's functional form make rows, where eager's rrelu does.
    """
    changed = False
    for node in [n for n in gm.graph.nodes if _name(n.target) in _IN_ROWS]:
        made = node.meta.get("example_value")
        if not isinstance(made, Tensor) or is_contiguous_or_false(made):
            continue
        if made.requires_grad if _name(node.target) == "max_pool1d" else _is_in_place(node):
            continue
        with gm.graph.inserting_after(node):
            rows = gm.graph.call_method("contiguous", (node,))
        rows.meta = dict(node.meta)
        node.replace_all_uses_with(rows, delete_user_cb=lambda user, rows=rows: user is not rows)
        changed = True
    if changed:
        gm.recompile()
    return gm


def marked_in_place(gm: GraphModule) -> GraphModule:
    """gm, Dynamo's, whose operations that write to their first argument are marked.

    Their result has the layout of the argument. AOTAutograd's graph has them out of place, where eager's have
    another one; its nodes have the `custom` of those that they come from.
    """
    for node in gm.graph.nodes:
        if _is_in_place(node):
            node.meta["custom"] = node.meta.get("custom", {}) | {"dlc_in_place": True}
    return gm


#: What draws numbers in the order of its operand's memory. AOTAutograd's form of it draws them in rows.
_DRAWN = ("alpha_dropout", "alpha_dropout_", "bernoulli_", "dropout_")


def _draws(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Is it one of these?  dropout is, if it writes to its operand."""
    name = _name(target)
    return name in _DRAWN or (name == "dropout" and bool(kwargs.get("inplace", args[3:] == (True,))))


def drawn_as_eager(gm: GraphModule) -> GraphModule:
    """gm, Dynamo's, in which what is drawn in the order of memory is drawn through a view that has rows."""
    changed = False
    for node in [n for n in gm.graph.nodes if _draws(n.target, n.args, n.kwargs)]:
        first = _first(node)
        value = first.meta.get("example_value") if first else None
        if first and isinstance(value, Tensor) and not is_contiguous_or_false(value):
            _draw_through_view(node, first, value)
            changed = True
    if changed:
        gm.recompile()
    return gm


def _draw_through_view(node: Node, first: Node, value: Tensor) -> None:
    """The node's operand, and a tensor of chances, as views whose axes are in the order of memory."""
    graph, (order, back), in_place = node.graph, _memory_order(value), _is_in_place(node)

    def method(name: str, *args: Any) -> Node:
        made = graph.call_method(name, args)
        made.meta = dict(node.meta)
        return made

    with graph.inserting_before(node):
        view = method("permute", first, order)
        view.meta["example_value"] = value.permute(order)
        chance = node.args[1] if len(node.args) > 1 else node.kwargs.get("p")
        if isinstance(chance, Node) and isinstance(chance.meta.get("example_value"), Tensor):
            node.replace_input_with(chance, method("permute", method("expand_as", chance, first), order))
    node.replace_input_with(first, view)
    if in_place:
        node.replace_all_uses_with(first)
        node.meta["example_value"] = view.meta["example_value"]
        return
    with graph.inserting_after(node):
        made = method("permute", node, back)
    node.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def _first(node: Node) -> Node | None:
    first = node.args[0] if node.args else node.kwargs.get("input")
    return first if isinstance(first, Node) else None


def _is_in_place(node: Node) -> bool:
    """Is the result of the node, of Dynamo's graph, its first argument?"""
    first, made = _first(node), node.meta.get("example_value")
    return first is not None and isinstance(made, Tensor) and first.meta.get("example_value") is made


def _memory_order(t: Tensor) -> tuple[list[int], list[int]]:
    """The axes from the outermost in memory to the innermost, and the permutation that undoes this."""
    order = list(compute_elementwise_output_logical_to_physical_perm(t)[0])
    return order, [order.index(axis) for axis in range(t.dim())]


class LaidAsEager(TorchFunctionMode):
    """The same where a function is traced without Dynamo, for max_pool1d on the way with gradients."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        first = args[0] if args else None
        if _draws(func, args, kwargs) and isinstance(first, Tensor) and not is_contiguous_or_false(first):
            return self._drawn(func, first, args[1:], kwargs)
        made = func(*args, **kwargs)
        rows = _name(func) in _IN_ROWS and isinstance(made, Tensor) and made is not first
        return made.contiguous() if rows else made

    def _drawn(
        self, func: Callable[..., Any], x: Tensor, rest: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        order, back = _memory_order(x)
        view = x.permute(order)
        if rest and isinstance(rest[0], Tensor):
            rest = (rest[0].expand_as(x).permute(order), *rest[1:])
        made: Tensor = func(view, *rest, **kwargs)
        return x if made is view else made.permute(back)


def tangents_as_results(joint: GraphModule, count: int) -> None:
    """Lays each tangent of a joint graph in the order of its result, one of the first count of the outputs.

    Where sizes are symbolic, AOTAutograd makes a tangent channels last or rows, whatever its result is.
    Eager's gradients follow the result.
    """
    (output,) = joint.graph.find_nodes(op="output")
    about = zip(output.meta.get("desc", ())[:count], output.args[0], strict=False)
    results = {one: node.meta.get("val") for one, node in about if isinstance(node, Node)}
    last = [node for node in joint.graph.nodes if node.op == "placeholder"][-1]
    for node in joint.graph.find_nodes(op="placeholder"):
        result = results.get(getattr(node.meta.get("desc"), "output", None))
        if isinstance(result, Tensor) and isinstance(node.meta.get("val"), Tensor):
            _lay_tangent(joint, node, result, last)


def _lay_tangent(joint: GraphModule, node: Node, result: Tensor, after: Node) -> None:
    """A copy in the result's order, if the tangent has another one; it fuses with what reads it."""
    value = node.meta["val"]
    if not is_non_overlapping_and_dense_or_false(result):
        return
    order, back = _memory_order(result)
    if order == _memory_order(value)[0]:
        return
    aten, made = torch.ops.aten, [node]
    in_rows = {"memory_format": torch.contiguous_format}
    for op, args, kwargs in (
        (aten.permute.default, (order,), {}),
        (aten.clone.default, (), in_rows),
        (aten.permute.default, (back,), {}),
    ):
        with joint.graph.inserting_after(made[-1] if made[1:] else after):
            made.append(joint.graph.call_function(op, (made[-1], *args), kwargs))
        made[-1].meta = {key: one for key, one in node.meta.items() if key != "desc"}
    node.replace_all_uses_with(made[-1], delete_user_cb=lambda user: user is not made[1])
    _follow_or_undo(joint, made)


def _follow_or_undo(joint: GraphModule, made: list[Node]) -> None:
    """The values of made[1:], each of which reads the one before, and of what follows; else made[0] alone."""
    old = {n: n.meta["val"] for n in joint.graph.nodes if "val" in n.meta}
    try:
        with torch.no_grad(), made[0].meta["val"].fake_mode, enable_python_dispatcher():
            for node in made[1:]:
                node.meta["val"] = value_now(node)
            _follow(joint, {node: node.meta["val"] for node in made[1:]})
    except Exception as error:
        log.debug("%s keeps its layout: %s", made[0], error)
        for node, value in old.items():
            node.meta["val"] = value
        made[-1].replace_all_uses_with(made[0])
        for node in reversed(made[1:]):
            joint.graph.erase_node(node)


def _displaced(gm: GraphModule) -> list[Node]:
    return [node for node in gm.graph.nodes if "dlc_order" in node.meta]


def _lay(gm: GraphModule, nodes: list[Node]) -> bool:
    """Gives the nodes' results their orders; where later operators cannot follow, all stays as it was."""
    old = {n: n.meta["val"] for n in gm.graph.nodes if "val" in n.meta}
    try:
        _check_aliases()
        leaves = tree_leaves(nodes[0].meta["val"])
        mode = next(t.fake_mode for t in leaves if isinstance(t, Tensor))
        with torch.no_grad(), mode, enable_python_dispatcher():
            _follow(gm, {n: _in_order(n.meta["val"], n.meta["dlc_order"]) for n in nodes})
    except Exception as error:
        log.debug("%s keep the layout of their fake tensors: %s", nodes, error)
        for n, value in old.items():
            n.meta["val"] = value
        return False
    return True


def _check_aliases() -> None:
    """AOTAutograd makes views of intermediate results by the strides that it has noted."""
    context = TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    if getattr(metadata, "num_intermediate_bases", 0):
        raise _C.CaptureError("a result is a view of an intermediate value of the graph")


def _in_order(value: Any, orders: tuple[Any, ...]) -> Any:
    def one(t: Any, order: tuple[int, ...] | torch.dtype | None) -> Any:
        if order is None:
            return t
        if isinstance(order, torch.dtype):
            return torch.empty_strided(t.shape, t.stride(), dtype=order, device=t.device)
        return torch.empty_permuted(t.shape, order, dtype=t.dtype, device=t.device)

    if isinstance(value, Tensor):
        return one(value, orders[0])
    return type(value)(map(one, value, orders))


def is_like(a: Any, b: Any) -> bool:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return a is b or bool(a == b)
    sizes = (*zip(a.shape, b.shape, strict=True), *zip(a.stride(), b.stride(), strict=True))
    return a.dtype == b.dtype and all(statically_known_true(x == y) for x, y in sizes)


def value_now(node: Node) -> Any:
    """The node's value, of the values of what it reads; the one it has, if that is like it."""
    old = node.meta.get("val")
    if any(isinstance(t, Tensor) and free_unbacked_symbols(t) for t in tree_leaves(old)):
        raise _C.CaptureError(f"the sizes of {node.name} depend on data")
    args, kwargs = tree_map_only(Node, lambda n: n.meta["val"], (node.args, node.kwargs))
    new = node.target(*args, **kwargs)  # type: ignore[operator]
    pairs = zip(tree_leaves(old), tree_leaves(new), strict=True)
    return old if all(is_like(a, b) for a, b in pairs) else new


def is_mutable(node: Node) -> bool:
    """Is it a copy into an input?  Its value stands for that one."""
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def _follow(gm: GraphModule, given: dict[Node, Any]) -> None:
    """The values for the nodes, and what follows from them for those that read them."""
    for node, value in given.items():
        node.meta["val"] = value
    changed = set(given)
    for node in gm.graph.nodes:
        reads = node.op == "call_function" and not changed.isdisjoint(node.all_input_nodes)
        if node in given or not reads or is_mutable(node):
            continue
        new = value_now(node)
        if new is not node.meta.get("val"):
            node.meta["val"] = new
            changed.add(node)
