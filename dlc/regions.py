"""Regions of a graph of Dynamo's that run under torch.vmap.

Between `_vmap_increment_nesting` and its `_vmap_decrement_nesting` the graph has functions of one element of
a batch, and its values are tensors that the walk cannot read. Such a region, with those nested in it, is run
once on the fake tensors that Dynamo left in the graph. torch's rules for batches make operators on whole
tensors of it; these are written down and take its place: an axis that was added is a view. Nothing else of
the graph is traced, and sizes stay the symbols that they are.
"""

from __future__ import annotations

import contextlib
from operator import getitem
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._functorch import predispatch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.amp import autocast_mode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._python_dispatch import TorchDispatchMode

from ._C import CaptureError
from .decompositions import decompositions
from .inline import copied, is_like
from .trace import capturing, storage_of

BEGIN = predispatch._vmap_increment_nesting
END = predispatch._vmap_decrement_nesting
LOAD = predispatch.lazy_load_decompositions

#: Of what a graph begins besides vmap, or changes of torch: what runs alone would run in another state.
_STATES = (
    "_grad_increment_nesting", "_jvp_increment_nesting", "_func_increment_nesting", "_enter_dual_level",
    "_autograd_grad", "_saved_tensors_hooks_disable", "set_inplace_requires_grad_allowed",
    "_set_fwd_grad_enabled", "_enter_inference_mode",
)  # fmt: skip

#: Changes of modes that are left out, as the walk does, where they have no effect; see direct_mode.c.
_MODES = frozenset((torch._C._set_grad_enabled, autocast_mode._enter_autocast, autocast_mode._exit_autocast))

#: What an operator may not be: more than a function of its arguments, or one that gives a number.
_REFUSED = frozenset((torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output))


class _Recorder(TorchDispatchMode):
    """Writes the operators that run on fake tensors into a graph, before the node `at`."""

    def __init__(self, graph: Graph, at: Node) -> None:
        super().__init__()
        self.graph, self.at = graph, at
        self.source = at  # the node that is running
        self.table = decompositions()
        #: Of a tensor, by identity, its node; the tensors are held, so that no other has theirs.
        self.nodes: dict[int, Node] = {}
        self.held: list[Tensor] = []

    def give(self, tensor: Tensor, node: Node) -> None:
        self.nodes[id(tensor)] = node
        self.held.append(tensor)

    def node_of(self, tensor: Tensor) -> Node:
        node = self.nodes.get(id(tensor))
        if node is None:
            raise CaptureError("a function under vmap reads a tensor that no node of the graph makes")
        return node

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        parts = self.table.get(func)
        if parts is not None:
            with self:
                made = parts(*args, **kwargs)
            if made is not NotImplemented:
                return made
        if isinstance(func, OpOverload) and torch.Tag.inplace_view in func.tags:
            return self.change_view(func, args, kwargs)
        made = func(*args, **kwargs)
        if isinstance(made, (Tensor, tuple, list)):
            self.write(func, args, kwargs, made)
        return made

    def change_view(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """x.squeeze_() as x.squeeze() of what x was; that is x from here on."""
        x, *rest = args
        node, was = self.node_of(x), torch.ops.aten.alias.default(x)
        if node.meta.get("val") is not x:
            raise CaptureError(f"{func} under vmap writes to an argument or draws random numbers")
        node.meta.update(example_value=was, val=was)
        made = func(*args, **kwargs)
        packet = getattr(torch.ops.aten, func._schema.name.removeprefix("aten::").removesuffix("_"))
        self.give(x, self.add(getattr(packet, func._overloadname), (node, *rest), kwargs, x))
        return made

    def write(self, func: Any, args: Any, kwargs: Any, made: Any) -> None:
        if not isinstance(func, OpOverload) or func._schema.is_mutable or _REFUSED & set(func.tags):
            raise CaptureError(f"{func} under vmap writes to an argument or draws random numbers")
        if torch.Tag.dynamic_output_shape in func.tags and free_unbacked_symbols(made):
            raise CaptureError(f"the sizes of a result of {func} under vmap depend on data")
        args, kwargs = pytree.tree_map_only(Tensor, self.node_of, (args, kwargs))
        node = self.add(func, args, kwargs, made)
        if isinstance(made, Tensor):
            self.give(made, node)
            return
        for k, item in enumerate(made):
            if isinstance(item, Tensor):
                self.give(item, self.add(getitem, (node, k), {}, item))

    def add(self, target: Any, args: Any, kwargs: Any, value: Any) -> Node:
        with self.graph.inserting_before(self.at):
            node = self.graph.call_function(target)
        node.args, node.kwargs = args, kwargs  # sizes are symbols: no node gives them
        node.meta = {"example_value": value, "val": value}
        if "stack_trace" in self.source.meta:
            node.meta["stack_trace"] = self.source.meta["stack_trace"]
        return node


def _value(node: Node) -> Any:
    value = node.meta.get("example_value")
    if value is None and node.op != "call_function":
        raise CaptureError(f"the node {node.name} has no value in the graph")
    if isinstance(value, (torch.SymFloat, torch.SymBool)):
        # What the region decides by the number would leave no guard behind, as it does for sizes.
        raise CaptureError("a function under vmap reads a float that is known at run time only")
    return value


def _call(node: Node, values: dict[Node, Any]) -> Any:
    args, kwargs = pytree.tree_map_only(Node, values.__getitem__, (node.args, node.kwargs))
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    if node.op != "call_function" or isinstance(node.target, torch._ops.HigherOrderOperator):
        raise CaptureError(f"{node.target} is called under vmap, and is no function of tensors")
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _run(region: list[Node], values: dict[Node, Any], recorder: _Recorder) -> None:
    """Calls the nodes; what they have begun is ended when one of them fails."""
    depth = 0
    try:
        for node in region:
            recorder.source = node
            values[node] = None if node.target in _MODES else _call(node, values)
            depth += (node.target is BEGIN) - (node.target is END)
    finally:
        for _ in range(depth):
            END()


def _region(nodes: list[Node], first: int) -> list[Node]:
    """From the BEGIN at that place to the END that belongs to it."""
    depth = 0
    for k in range(first, len(nodes)):
        depth += (nodes[k].target is BEGIN) - (nodes[k].target is END)
        if not depth:
            return nodes[first : k + 1]
    raise CaptureError("the graph ends under vmap")


def _mode(values: dict[Node, Any]) -> Any:
    """The mode of the fake tensors: that of torch's context is another one by now."""
    modes = (v.fake_mode for v in values.values() if isinstance(v, FakeTensor))
    return next(modes, contextlib.nullcontext())


def _check(results: list[tuple[Node, Tensor]], inputs: list[Any]) -> None:
    """Are the tensors those that Dynamo has seen?"""
    for node, made in results:
        seen = node.meta["example_value"]
        if not isinstance(made, Tensor) or made.dim() != seen.dim() or not is_like(made, seen):
            raise CaptureError("results of a function under vmap have another layout than in the graph")
        if seen.requires_grad:
            raise CaptureError("a function under vmap switches gradients on")
    given = {storage_of(v) for v in inputs}
    own = [s for s in (storage_of(made) for _, made in results) if s not in given]
    if len(set(own)) != len(own):
        raise CaptureError("two results of a function under vmap share memory")


def _replace(graph: Graph, region: list[Node]) -> None:
    """Puts the operators of a region where it stands."""
    inside = set(region)
    inputs = [n for n in dict.fromkeys(a for n in region for a in n.all_input_nodes) if n not in inside]
    values = {node: _value(node) for node in inputs}
    recorder = _Recorder(graph, region[0])
    for node, value in values.items():
        if isinstance(value, Tensor):
            recorder.give(value, node)
    with torch.inference_mode(False), torch.no_grad(), _mode(values), enable_python_dispatcher(), recorder:
        _run(region, values, recorder)
    outputs = [n for n in region if any(user not in inside for user in n.users)]
    results = [(node, values[node]) for node in outputs]
    _check(results, [values[n] for n in inputs])
    for node, made in results:
        new = recorder.node_of(made)
        if new not in values:
            new.meta["example_value"] = node.meta["example_value"]
        node.replace_all_uses_with(new, delete_user_cb=lambda user: user not in inside)
    for node in reversed(region):
        graph.erase_node(node)


def batched(gm: GraphModule) -> GraphModule:
    """gm with operators on whole tensors in place of its regions; gm is left as it is.

    Raises CaptureError when that cannot be done, and whatever torch raises when it runs a region.
    """
    for node in gm.graph.nodes:
        if getattr(node.target, "__name__", "") in _STATES:
            raise CaptureError(f"the graph has {node.target.__name__} beside vmap")
        if node.target is autocast_mode._enter_autocast and node.args[2] is not False:
            raise CaptureError("the graph switches autocast on")
    copy = copied(gm)
    for node in copy.graph.find_nodes(op="call_function", target=LOAD):
        copy.graph.erase_node(node)
    nodes = list(copy.graph.nodes)
    with capturing():
        k = 0
        while k < len(nodes):
            region = _region(nodes, k) if nodes[k].target is BEGIN else []
            if region:
                _replace(copy.graph, region)
            k += len(region) or 1
    return copy
