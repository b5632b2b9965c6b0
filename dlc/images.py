"""Images of a joint graph with their channels innermost in memory (channels last), where that is cheaper.

Eager's convolution of row-major images reorders what it reads and what it makes; so do both products of its
gradient. Channels last they reorder the weight instead, and make its gradient in that order. What is gained
is gained by convolutions of each channel by itself and by those of one point between them; with other windows
it is lost again (docs/experiments.md). So a joint graph is laid, before it is cut in two, where the former
have at least a quarter of the images' elements. Then its convolutions get their images as the rule of
csrc/capture/walk/image_layout.c has them in a graph without gradients: channels last, where the weight is no
larger than the images, in rows else. Each is a `clone` with a memory format, which the kernel that makes the
image writes at once. What follows from the fake tensors of torch follows: norms, activations, pools, what is
saved for the backward. Results and gradients are cloned into the layout that they had.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import TracingContext
from torch._ops import OpOverload
from torch._prims_common import is_channels_last_contiguous_or_false, is_contiguous_or_false
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import optimization_hint
from torch.utils._pytree import tree_leaves, tree_map_only

from . import _C
from .layouts import is_like, is_mutable, value_now

log = logging.getLogger("dlc")

aten = torch.ops.aten
ROWS, LAST = torch.contiguous_format, torch.channels_last
#: Positions of the images among the arguments, and of the weight.
CONVOLUTIONS = {aten.convolution.default: ((0,), 1), aten.convolution_backward.default: ((0, 1), 2)}
#: They read memory, not elements.
BY_STRIDES = {aten.as_strided.default, aten.as_strided_copy.default, aten.as_strided_scatter.default}


def numel(value: Tensor) -> int:
    count = 1
    for size in value.shape:
        count *= optimization_hint(size, 64)
    return count


def _is_image(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, Tensor) and value.dim() == 4 and value.dtype == torch.float32


def _operands(node: Node) -> tuple[list[Tensor], Tensor] | None:
    """The images that a convolution or its gradient reads and makes, and the weight; None: not of images."""
    images, at = CONVOLUTIONS[node.target]
    nodes = [node.args[k] for k in (*images, at)]
    if not all(map(_is_image, nodes)):
        return None
    *values, weight = [x.meta["val"] for x in nodes]
    return (values if len(values) == 2 else [*values, node.meta["val"]]), weight


def _is_depthwise(weight: Tensor) -> bool:
    return bool(weight.shape[1] == 1)


def _wants(node: Node) -> torch.memory_format | None:
    """How a convolution, or its gradient, takes its images; None: as they are."""
    operands = _operands(node) if node.target in CONVOLUTIONS else None
    if operands is None:
        return None
    images, weight = operands
    groups = node.args[8] if node.target is aten.convolution.default else node.args[9]
    either = _is_depthwise(weight) or (weight.shape[2] == 1 and weight.shape[3] == 1)
    either = either or is_channels_last_contiguous_or_false(weight)
    small = numel(weight) <= sum(map(numel, images))
    return LAST if (groups == 1 or _is_depthwise(weight)) and (either or small) else ROWS


def _is_worth(convolutions: list[Node]) -> bool:
    """Have those of each channel by itself a quarter of the images' elements?"""
    total = each = 0
    for images, weight in filter(None, map(_operands, convolutions)):
        count = sum(map(numel, images))
        total += count
        each += count if _is_depthwise(weight) else 0
    return total > 0 and 4 * each >= total


def _is_in(value: Tensor, form: torch.memory_format) -> bool:
    return is_contiguous_or_false(value) if form is ROWS else is_channels_last_contiguous_or_false(value)


def _reads_strides(node: Node) -> bool:
    """Do its results depend on where elements are in memory?"""
    target = node.target
    if not isinstance(target, OpOverload):
        return target is not operator.getitem
    known = target.namespace in ("aten", "prims")
    return not known or target in BY_STRIDES or torch.Tag.nondeterministic_seeded in target.tags


class _Relaid:
    """A graph whose images are laid otherwise, until it is found that this cannot be."""

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm
        self.old: dict[Node, Any] = {}
        self.args: list[tuple[Node, Any, Any]] = []
        self.made: dict[tuple[Node, torch.memory_format], Node] = {}

    def copy(self, node: Node, form: torch.memory_format, before: Node) -> Node:
        """The node's value in the form."""
        if (node, form) not in self.made:
            after = node.next if node.op == "call_function" else before
            with self.gm.graph.inserting_before(after):
                copy = self.gm.graph.call_function(aten.clone.default, (node,), {"memory_format": form})
            copy.meta = {k: node.meta[k] for k in ("stack_trace", "nn_module_stack") if k in node.meta}
            copy.meta["val"] = aten.clone.default(node.meta["val"], memory_format=form)
            self.made[node, form] = copy
        return self.made[node, form]

    def read(self, node: Node, how: Callable[[Node], Node]) -> None:
        """Has the node read how(x) for each x."""
        self.args.append((node, node.args, node.kwargs))
        args, kwargs = tree_map_only(Node, how, (node.args, node.kwargs))
        node.args, node.kwargs = args, kwargs

    def in_form(self, x: Node, form: torch.memory_format, user: Node) -> Node:
        return x if _is_in(x.meta["val"], form) else self.copy(x, form, user)

    def as_it_was(self, x: Node, user: Node) -> Node:
        """x, laid as before."""
        if x not in self.old:
            return x
        for was, now in zip(tree_leaves(self.old[x]), tree_leaves(x.meta["val"]), strict=True):
            if not is_like(was, now) and not isinstance(x.meta["val"], Tensor):
                return x  # its items are read
            if not is_like(was, now):
                form = next(form for form in (ROWS, LAST) if _is_in(was, form))
                return self.copy(x, form, user)
        return x

    def run(self, node: Node) -> None:
        """Its value, of what it reads now."""
        old, new = node.meta.get("val"), value_now(node)
        if new is not old:
            self.old[node] = old
            node.meta["val"] = new

    def visit(self, node: Node) -> None:
        form = _wants(node)
        if form is not None:
            images = {node.args[k] for k in CONVOLUTIONS[node.target][0]}
            self.read(node, lambda x: self.in_form(x, form, node) if x in images else x)
        elif self.old.keys().isdisjoint(node.all_input_nodes):
            return
        elif node.op == "output" or _reads_strides(node):
            self.read(node, lambda x: self.as_it_was(x, node))
            return
        elif is_mutable(node):
            return
        try:
            self.run(node)
        except (RuntimeError, ValueError, _C.CaptureError):
            if form is not None:
                raise
            self.read(node, lambda x: self.as_it_was(x, node))  # a view of rows

    def undo(self) -> None:
        for node, args, kwargs in reversed(self.args):
            node.args, node.kwargs = args, kwargs
        for node, value in self.old.items():
            node.meta["val"] = value
        for copy in self.made.values():
            self.gm.graph.erase_node(copy)


def images_last(gm: GraphModule) -> None:
    """Lays the images of a joint graph of several convolutions; leaves it as it is where that cannot be."""
    nodes = list(gm.graph.nodes)
    convolutions = [n for n in nodes if n.target is aten.convolution.default]
    if len(convolutions) < 2 or not _is_worth(convolutions):
        return
    metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
    if getattr(metadata, "num_intermediate_bases", 0):
        return  # views of intermediate results have strides that AOTAutograd has noted
    relaid = _Relaid(gm)
    try:
        mode = convolutions[0].meta["val"].fake_mode
        with torch.no_grad(), mode, enable_python_dispatcher():
            for node in nodes:
                if node.op in ("call_function", "output"):
                    relaid.visit(node)
        gm.recompile()
    except Exception as error:
        log.debug("the images of a joint graph stay as they are: %s", error, exc_info=error)
        relaid.undo()
