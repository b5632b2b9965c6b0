"""Control flow: the bodies of torch.cond, while_loop, scan and map are graphs, compiled as such.

The operator that calls them is torch's own; it gets compiled bodies in place of interpreted ones. Other
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


def compiled_bodies(gm: GraphModule, compiler: Callable[[GraphModule], Any]) -> dict[GraphModule, Any]:
    """Each body of control flow in gm, and what the compiler makes of it."""
    bodies: dict[GraphModule, Any] = {}
    if not any(isinstance(child, GraphModule) for child in gm.children()):
        return bodies
    for node in filter(_calls_bodies, gm.graph.nodes):
        for operand in node.all_input_nodes:
            body = gm.get_submodule(str(operand.target)) if operand.op == "get_attr" else None
            if isinstance(body, GraphModule) and body not in bodies:
                compiled = compiler(body)
                bodies[body] = compiled if compiled is body or _returns_tuple(body) else _single(compiled)
    return bodies
