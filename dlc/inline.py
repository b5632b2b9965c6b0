"""Functions that csrc/capture/torch/torch.def lacks, or lacks with their arguments, in a graph of Dynamo.

AOTAutograd would trace the whole graph to have such a function as operators. Here only its own call is
traced, on the fake tensors that Dynamo left in the graph, with the same decompositions, and its operators
take its place: the rest of the graph is still taken as it is.
"""

from __future__ import annotations

import contextlib
import operator
from operator import getitem
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from ._C import CaptureError
from .decompositions import decompositions
from .trace import capturing, functional, storage_of

#: Functions that one graph may have traced: beyond them AOTAutograd is quicker.
MOST = 16


def _is_function(node: Node) -> bool:
    """Is it a call of what is no operator yet?"""
    return node.op in ("call_function", "call_method") and not isinstance(
        node.target, (OpOverload, HigherOrderOperator)
    )


def _values(node: Node) -> list[Any]:
    """The tensors that a node gives."""
    value = node.meta.get("example_value")
    if node.target is operator.setitem:
        return []
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    if not values or not all(isinstance(v, Tensor) for v in values):
        raise CaptureError("a result of the function is not a tensor")
    if any(free_unbacked_symbols(v) for v in values):
        raise CaptureError("the size of a result of the function depends on data")
    return values


def is_like(a: Tensor, b: Tensor) -> bool:
    """Dtype, sizes and strides, as far as they are known now."""
    layout = (*zip(a.shape, b.shape, strict=True), *zip(a.stride(), b.stride(), strict=True))
    return a.dtype == b.dtype and all(statically_known_true(x == y) for x, y in layout)


def _check(graph: GraphModule, values: list[Any], outputs: list[Any]) -> None:
    """Are the operators as good as the call?  What writes, draws or has another layout is not."""
    for node in graph.graph.nodes:
        if isinstance(node.target, OpOverload):
            if node.target._schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags:
                raise CaptureError(f"{node.target} writes to an argument or draws random numbers")
        elif (
            node.op == "call_function" and isinstance(node.meta.get("val"), Tensor) and node.target != getitem
        ):
            raise CaptureError(f"the function calls {node.target}, which is not an operator")
    made = [o.meta.get("val") if isinstance(o, Node) else None for o in outputs]
    if len(made) != len(values) or not all(isinstance(m, Tensor) for m in made):
        raise CaptureError("the function has other results when it is traced alone")
    if any(m.dim() != v.dim() or not is_like(m, v) for m, v in zip(made, values, strict=True)):
        raise CaptureError("results of the function have another layout when it is traced alone")
    given = {storage_of(n.meta.get("val")) for n in graph.graph.nodes if n.op == "placeholder"}
    own = [s for s in map(storage_of, made) if s not in given]
    if len(set(own)) != len(own):
        raise CaptureError("two results of the function share memory")


class _Traced(NamedTuple):
    """A call as operators, what becomes of its results, and the inputs whose new values are behind them."""

    graph: GraphModule
    leaves: list[tuple[str, Any]]
    written: list[int]


def _traced(node: Node, inputs: list[Node]) -> _Traced:
    """The node's call of its inputs' values as a graph of operators."""

    def call(*given: Any) -> Any:
        by_node = dict(zip(inputs, given, strict=True))
        args, kwargs = pytree.tree_map_only(Node, by_node.__getitem__, (node.args, node.kwargs))
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    shape: list[Any] = []
    written: list[int] = []
    fakes = [n.meta["example_value"] for n in inputs]
    # The mode of torch's context is another one by now.
    tensors = [f for f in (*_values(node), *fakes) if isinstance(f, Tensor)]
    mode = getattr(tensors[0], "fake_mode", None) or contextlib.nullcontext()
    run = functional(call, [n.name for n in inputs], (), shape, written)
    with capturing(), torch.inference_mode(False), torch.no_grad(), mode, enable_python_dispatcher():
        graph = make_fx(run, decompositions())(*fakes)
    leaves = [] if node.target is operator.setitem else shape[0]
    if any(
        kind not in ("result", "argument") or (kind == "argument" and k not in written) for kind, k in leaves
    ):
        raise CaptureError("the function returns an argument, or no tensor")
    storages = [storage_of(f) for f in fakes]
    if any(storages.count(storages[k]) > 1 for k in written):
        raise CaptureError("the function writes to an argument that shares its storage with another")
    return _Traced(graph, leaves, written)


def _attribute(gm: GraphModule, graph: GraphModule, node: Node) -> str:
    """A constant of the traced graph, as one of gm."""
    name = "_tensor_constant_0"
    while hasattr(gm, name):
        name = f"_tensor_constant_{int(name.rpartition('_')[2]) + 1}"
    setattr(gm, name, getattr(graph, str(node.target)))
    return name


def _replace(gm: GraphModule, node: Node) -> None:
    """Puts the operators of a call where it stands."""
    values = _values(node)
    if node.target == "copy_":
        raise CaptureError("the function is the write itself")
    inputs = [n for n in dict.fromkeys(node.all_input_nodes) if n.meta.get("example_value") is not None]
    if len(inputs) != len(node.all_input_nodes):
        raise CaptureError("an argument of the function has no value in the graph")
    if any(isinstance(n.meta["example_value"], (torch.SymFloat, torch.SymBool)) for n in inputs):
        # What the function decides by the number would leave no guard behind, as it does for sizes.
        raise CaptureError("an argument of the function is a float that is known at run time only")
    graph, leaves, written = _traced(node, inputs)
    *_, last = graph.graph.nodes
    outputs = pytree.tree_leaves(last.args[0])
    made = [v for v, (kind, _) in zip(values, leaves, strict=True) if kind == "result"]
    _check(graph, made, outputs[: len(outputs) - len(written)])
    if {storage_of(v.meta["val"]) for v in outputs[: len(made)]} & {
        storage_of(v.meta["val"]) for v in outputs[len(made) :]
    }:
        raise CaptureError("a result of the function shares memory with what it writes to")
    single = isinstance(node.meta.get("example_value"), Tensor)
    picks = [] if single else list(node.users)
    if any(p.target != getitem for p in picks):
        raise CaptureError("the graph uses the list of the function's results as a whole")
    places = dict(zip((n for n in graph.graph.nodes if n.op == "placeholder"), inputs, strict=True))
    with gm.graph.inserting_before(node):
        for inner in graph.graph.nodes:
            if inner.op in ("placeholder", "output"):
                continue
            copy = gm.graph.node_copy(inner, places.__getitem__)
            if inner.op == "get_attr":
                copy.target = _attribute(gm, graph, inner)
            copy.meta = {key: inner.meta.get("val") for key in ("example_value", "val")}
            if "stack_trace" in node.meta:
                copy.meta["stack_trace"] = node.meta["stack_trace"]
            places[inner] = copy
    for inner, value in zip(outputs, made, strict=False):
        if all(n is not places[inner] for n in inputs):
            places[inner].meta["example_value"] = value
    for k, inner in zip(written, outputs[len(made) :], strict=True):
        with gm.graph.inserting_before(node):
            write = gm.graph.call_method("copy_", (inputs[k], places[inner]))
        write.meta = {**node.meta, "example_value": inputs[k].meta["example_value"]}
    results = [inputs[k] if kind == "argument" else places[outputs[k]] for kind, k in leaves]
    if single:
        node.replace_all_uses_with(results[0])
    for pick in picks:
        pick.replace_all_uses_with(results[int(pick.args[1])])  # type: ignore[arg-type]
        gm.graph.erase_node(pick)
    gm.graph.erase_node(node)


def copied(gm: GraphModule) -> GraphModule:
    """A graph of its own for gm, with the same values; without code, since nothing runs it."""
    places: dict[Node, Node] = {}
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, places))
    for old, new in places.items():
        new.meta = old.meta
    return _LazyGraphModule(gm, graph)


def inlined(gm: GraphModule, name: str) -> GraphModule:
    """gm with the calls of the function that the node of that name calls as operators.

    Raises CaptureError when it calls none, or when that cannot be done; gm is left as it is.
    """
    stop = next((n for n in gm.graph.nodes if n.name == name and _is_function(n)), None)
    if stop is None:
        raise CaptureError(f"the node {name} calls no function")
    copy = copied(gm)
    for node in list(copy.graph.nodes):
        if _is_function(node) and node.op == stop.op and node.target == stop.target:
            _replace(copy, node)
    return copy
