"""Control flow: the graphs that torch.cond, while_loop, scan and map are given.

They are bodies of loops and branches in dlc's own programs (csrc/capture/walk/walk_flow.c). Where that cannot
be, the operator that calls them is torch's own, and gets compiled bodies in place of interpreted ones. Other
operators of higher order may hand a body tensors that are none (flex_attention maps one over batches), so
theirs stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node

#: What calls its bodies with tensors and whole numbers alone.
NAMES = {"cond", "while_loop", "while_loop_stack_output", "scan", "associative_scan", "map_impl"}


def _calls_bodies(node: Node) -> bool:
    return isinstance(node.target, HigherOrderOperator) and node.target.name() in NAMES


def _single(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A body that returns no tuple: the condition of a loop."""
    return lambda *args: compiled(*args)[0]


def _returns_tuple(body: GraphModule) -> bool:
    (output,) = body.graph.find_nodes(op="output")
    return isinstance(output.args[0], (tuple, list))


def _modules(gm: GraphModule) -> set[GraphModule]:
    """The bodies of control flow in gm."""
    if not any(isinstance(child, GraphModule) for child in gm.children()):
        return set()
    operands = [o for node in filter(_calls_bodies, gm.graph.nodes) for o in node.all_input_nodes]
    found = (gm.get_submodule(str(o.target)) for o in operands if o.op == "get_attr")
    return {body for body in found if isinstance(body, GraphModule)}


def bodies_of(gm: GraphModule, compiler: Callable[[GraphModule], Any]) -> Callable[[Any], Any]:
    """What a call gets in place of a module of gm: of a body what the compiler makes of it, once."""
    modules, made = _modules(gm), dict[GraphModule, Any]()

    def body_of(module: Any) -> Any:
        if module not in modules:
            return module
        if module not in made:
            compiled = compiler(module)
            made[module] = compiled if compiled is module or _returns_tuple(module) else _single(compiled)
        return made[module]

    return body_of
