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
from torch._prims_common import is_contiguous_or_false
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.nn.functional import max_pool1d
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


def pooled_in_rows(gm: GraphModule) -> GraphModule:
    """gm, Dynamo's, in whose graph max_pool1d without gradients is followed by `contiguous`.

    Eager's has a kernel of its own there, which makes rows. AOTAutograd traces the one with gradients, whose
    results lie as their operand does; no aten graph tells the two apart.
    """
    changed = False
    for node in [n for n in gm.graph.nodes if getattr(n.target, "__name__", "") == "max_pool1d"]:
        made = node.meta.get("example_value")
        if not isinstance(made, Tensor) or made.requires_grad or is_contiguous_or_false(made):
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
        first = node.args[0] if node.args else node.kwargs.get("input")
        made = node.meta.get("example_value")
        if isinstance(made, Tensor) and isinstance(first, Node) and first.meta.get("example_value") is made:
            node.meta["custom"] = node.meta.get("custom", {}) | {"dlc_in_place": True}
    return gm


class PooledInRows(TorchFunctionMode):
    """The same where a function is traced without Dynamo, which takes the way with gradients."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        pooled = func in (torch.max_pool1d, max_pool1d) and isinstance(made, Tensor)
        return made.contiguous() if pooled else made


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
