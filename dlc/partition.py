"""Training's joint graph into a forward and a backward: what AOTAutograd calls partition_fn.

csrc/capture/joint/joint.c chooses what the forward saves; here the two graphs are made of its lists. What it
cannot take is left to functorch's min-cut partitioner, with a debug message that says why.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._C import _fx_map_arg
from torch._functorch import config
from torch._functorch._aot_autograd.descriptors import (
    InputMutationAOTOutput,
    SavedForBackwardsAOTOutput,
    SavedForBackwardsNoVcCheckAOTOutput,
)
from torch._library.fake_class_registry import FakeScriptObject
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _make_graph_module
from torch.fx.experimental.symbolic_shapes import (
    find_symbol_binding_fx_nodes,
    free_symbols,
    is_symbol_binding_fx_node,
)

from . import _C
from .gradients import split_gradients
from .images import images_last
from .layouts import laid_as_eager, tangents_as_results
from .memory import Fit, MemoryLimitError

log = logging.getLogger("dlc")


def _is_tangent(node: Node) -> bool:
    return "tangents" in str(node.target)


# -- what the C side does not know ---------------------------------------------------------------------


def _check(placeholders: list[Node]) -> None:
    """Raises CaptureError for what only functorch's partitioner takes care of."""
    if config.enable_activation_offloading or config._sync_decision_cross_ranks:
        raise _C.CaptureError("activations are offloaded or decisions shared between processes")
    for node in placeholders:
        if any(word in str(node.target) for word in ("seed", "offset", "rng_state")):
            raise _C.CaptureError("random states are inputs of the graph")


def _written(placeholders: list[Node], output: Node) -> set[int]:
    """The positions of the inputs that are given new values after the forward."""
    about = output.meta.get("desc", ())
    inputs = {one.mutated_input for one in about if isinstance(one, InputMutationAOTOutput)}
    return {k for k, node in enumerate(placeholders) if node.meta.get("desc") in inputs}


def _bind(joint: GraphModule, tangents: list[Node], saved: list[Node], sizes: list[Node]) -> list[Node]:
    """The sizes to pass on: those read, after symbols of which they and the tensors are made."""
    symbols: set[Any] = set()
    binding, derived = [], []
    for node in sizes:
        symbol = is_symbol_binding_fx_node(node)
        (derived if symbol is None else binding).append(node)
        symbols |= set() if symbol is None else {symbol}
    bound_by = find_symbol_binding_fx_nodes(joint.graph)
    for node in (*derived, *saved, *tangents):
        found = free_symbols(node.meta["val"]) - symbols if "val" in node.meta else set()
        binding += [bound_by[s] for s in sorted(found, key=lambda s: s.name) if s in bound_by]
        symbols |= found
    return binding + derived


# -- graphs --------------------------------------------------------------------------------------------


def _knows_graphs() -> bool:
    """Has a graph of torch's the parts that it is put together from here?"""
    graph = Graph()
    parts = (
        getattr(graph, "_insert", None),
        getattr(getattr(graph, "_find_nodes_lookup_table", None), "insert", None),
        getattr(getattr(graph, "_graph_namespace", None), "associate_name_with_obj", None),
    )
    names = getattr(getattr(graph, "_graph_namespace", None), "_used_names", None)
    return (
        all(map(callable, parts)) and isinstance(names, set) and isinstance(getattr(graph, "_len", None), int)
    )


_KNOWN = _knows_graphs()


class _Copy:
    """A graph made of nodes of another one, under their names."""

    def __init__(self, same: dict[Node, Node]) -> None:
        """same: nodes that others stand for."""
        self.graph = Graph()
        self.made: dict[Node, Node] = {}
        self.same = same

    def find(self, node: Node) -> Node:
        return self.made[self.same.get(node, node)]

    def _add(self, node: Node, op: str, target: Any, args: Any, kwargs: Any) -> Node:
        name = node.name
        if (
            _KNOWN
        ):  # What Graph.create_node does, but for checks: the names are unique and the arguments known.
            graph = self.graph
            copy = Node(graph, name, op, target, args, kwargs, node.type)
            names = graph._graph_namespace
            names._used_names.add(name)
            names.associate_name_with_obj(name, copy)
            graph._insert(copy)
            graph._find_nodes_lookup_table.insert(copy)
            graph._len += 1
        else:
            copy = self.graph.create_node(op, target, args, kwargs, name, node.type)
        self.made[node] = copy
        return copy

    def take(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._add(node, "placeholder", node.name, (), {}).meta = node.meta

    def fill(self, nodes: Iterable[Node], unread: dict[Node, set[Node]], **meta: Any) -> None:
        """unread: nodes to inputs of theirs whose elements do not matter."""
        for node in nodes:
            find = self.made.__getitem__
            if node in unread:
                named = sorted(unread[node], key=lambda x: x.name)
                find = self._finder({x: self._zeros(x) for x in named})
            elif self.same:
                find = self.find
            args, kwargs = _fx_map_arg(node.args, find), _fx_map_arg(node.kwargs, find)
            self._add(node, node.op, node.target, args, kwargs).meta = {**node.meta, **meta}

    def _finder(self, instead: dict[Node, Node]) -> Callable[[Node], Node]:
        return lambda node: instead[node] if node in instead else self.find(node)

    def _zeros(self, like: Node) -> Node:
        """A tensor of the same type."""
        value = like.meta["val"]
        how = {"dtype": value.dtype, "device": value.device}
        zeros = self.graph.create_node(
            "call_function", torch.ops.aten.full.default, (list(value.shape), 0), how, f"{like.name}_unread"
        )
        zeros.meta = {"val": value}
        return zeros

    def give(self, joint: GraphModule, outputs: list[Any], about: list[Any]) -> GraphModule:
        values = tuple(self.find(x) if isinstance(x, Node) else x for x in outputs)
        output = self.graph.output(values)
        output.meta["desc"] = about
        traces = [v.meta.get("stack_trace") if isinstance(v, Node) else None for v in values]
        output.meta["output_stack_traces"] = traces
        return _make_graph_module(joint, self.graph)


def _needs_no_check(node: Node) -> bool:
    """Did the user keep it on ctx, where autograd does not see whether it changes?"""
    return bool(node.meta.get("saved_tensor_with_no_vc_check", False))


def _last(node: Node) -> tuple[bool, bool]:
    """The order of what is saved, as AOTAutograd takes it: objects such as a mesh of processes come last."""
    return isinstance(node.meta.get("val"), FakeScriptObject), _needs_no_check(node)


def _halves(
    joint: GraphModule, placeholders: list[Node], output: Node, count: int, cut: dict[str, Any]
) -> tuple[GraphModule, GraphModule]:
    outputs = list(output.args[0])
    about = list(output.meta.get("desc", [None] * len(outputs)))
    saved = sorted(cut["saved"], key=_last)
    kinds = [
        (SavedForBackwardsNoVcCheckAOTOutput if _needs_no_check(node) else SavedForBackwardsAOTOutput)(k)
        for k, node in enumerate(saved + cut["sizes"])
    ]
    forward, backward = _Copy({}), _Copy(cut["same"])
    forward.take(node for node in placeholders if not _is_tangent(node))
    forward.fill(cut["forward"], {})
    backward.take(cut["sizes"] + saved)
    backward.take(filter(_is_tangent, placeholders))
    backward.fill(cut["backward"], cut["unread"], autograd_backward=True)
    for node, known in cut["known"].items():
        backward.made[node].meta["dlc_known"] = known
    return (
        forward.give(joint, outputs[:count] + saved + cut["sizes"], about[:count] + kinds),
        backward.give(joint, outputs[count:], about[count:]),
    )


class Partitioner:
    """One joint graph's partition_fn.

    limit: see the option memory_limit; then probe(graph, given) compiles a graph to ask what it takes.
    budget: see the option memory_budget; torch's own setting counts too.  fuel: see the option; each value
    that the backward computes again is a rewrite.  products: see the option.  summary: for dlc.explain,
    what became of the graph.
    """

    def __init__(
        self,
        budget: float = 1.0,
        fuel: int = -1,
        products: str = "auto",
        limit: int | None = None,
        probe: Callable[..., _C.Callable] | None = None,
    ) -> None:
        self.budget = min(budget, config.activation_memory_budget)
        self.fuel = fuel
        self.products = products
        self.limit = limit
        self.probe = probe
        self.summary: dict[str, Any] = {}

    def __call__(
        self,
        joint: GraphModule,
        inputs: Any,
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: list[int] | None = None,
    ) -> tuple[GraphModule, GraphModule]:
        tangents_as_results(joint, num_fwd_outputs)
        if self.products != "own":
            images_last(joint)
        if self.limit is not None:
            split_gradients(joint)
        try:
            return self._within(joint, num_fwd_outputs)
        except MemoryLimitError:
            raise
        except Exception as error:
            log.debug("functorch partitions a joint graph: %s", error, exc_info=error)
            self.summary["error"] = str(error)
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        halves = min_cut_rematerialization_partition(
            joint,
            inputs,
            num_fwd_outputs=num_fwd_outputs,
            static_lifetime_input_indices=static_lifetime_input_indices,
        )
        (output,) = halves[0].graph.find_nodes(op="output")
        results = output.args[0][:num_fwd_outputs]
        saved = output.args[0][num_fwd_outputs:]
        self.summary["returned"] = [node.name for node in saved if node in results]
        if self.limit is not None and self.probe is not None:
            Fit(self.limit, self.probe).check(halves, self.summary)
        return halves

    def _within(self, joint: GraphModule, count: int) -> tuple[GraphModule, GraphModule]:
        if self.limit is None or self.probe is None:
            return self._cut(joint, count, self.budget)

        def cut(way: tuple[float, float]) -> tuple[tuple[GraphModule, GraphModule], dict[str, Any]]:
            budget, share = way
            return self._cut(joint, count, budget * self.budget, budget < 1, share), self.summary.copy()

        return cut(Fit(self.limit, self.probe).way(cut))[0]

    def _cut(
        self, joint: GraphModule, count: int, budget: float, again: bool = False, share: float = 0
    ) -> tuple[GraphModule, GraphModule]:
        placeholders = joint.graph.find_nodes(op="placeholder")
        (output,) = joint.graph.find_nodes(op="output")
        _check(placeholders)
        if any("recompute" in node.meta for node in joint.graph.nodes):
            from torch._functorch.partitioners import cleanup_recompute_tags

            cleanup_recompute_tags(joint, is_default_partition=False)
        tangents = [node for node in placeholders if _is_tangent(node)]
        bind = functools.partial(_bind, joint, tangents)
        written = _written(placeholders, output)
        settings = (budget, self.fuel, self.products, again, share)
        cut = laid_as_eager(joint, lambda: _C.partition(joint, count, written, bind, *settings))
        self.summary |= {key: cut[key] for key in ("bytes", "recomputed", "cost")} | {
            "saved": sum(node.op != "placeholder" for node in cut["saved"]),
            "returned": [node.name for node in cut["saved"] if node in output.args[0][:count]],
        }
        return _halves(joint, placeholders, output, count, cut)
