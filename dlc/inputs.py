"""What the user calls the inputs of a graph: so messages name them, and not by arg0_1, primals_2 or L_x_."""

from __future__ import annotations

import re
from typing import Any

from torch.fx import GraphModule, Node

_KINDS = {"_parameters": "parameter", "_buffers": "buffer"}
_MEMBER = re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]")


def inputs_of(gm: GraphModule) -> list[Node]:
    """The placeholders of a graph of Dynamo's, in the order of the arguments that it is called with."""
    return list(gm.graph.find_nodes(op="placeholder"))


def word_of(source: str, given: bool = True) -> str | None:
    """argument 'x', parameter 'l.0.weight' or d['q']; None: nobody wrote it.

    source: as Dynamo has it, L['x'].  given: the caller gives it, and no function around this one.
    """
    found = re.fullmatch(r"([LG])\['(\w+)'\](.*)", source)
    if found is None:
        return None
    scope, root, rest = found.groups()
    kind = next((word for part, word in _KINDS.items() if f".{part}[" in rest), "")
    path = _MEMBER.sub(r".\1", rest)
    if kind and root in ("self", "fn"):  # fn: torch's wrapper of a module of its own
        return f"{kind} '{path.lstrip('.')}'"
    if rest:
        return f"{kind} {root}{path}".lstrip()
    kind = "global variable" if scope == "G" else "argument" if given else "variable"
    return f"{kind} '{root}'"


def _line(node: Node) -> str:
    """Where it is read, as csrc/ir/cx.c adds a place to a message."""
    from .report.steps import stack_place  # here: only a message needs it

    place = stack_place(node.meta.get("stack_trace") or "")
    return f"\n  at {place}: {place.text}" if place else ""


def _input(placeholder: Node, inputs: list[Node]) -> Node | None:
    """The input of Dynamo's graph that a placeholder of AOTAutograd's stands for."""
    place = getattr(placeholder.meta.get("desc"), "idx", None)
    return inputs[place] if isinstance(place, int) and place < len(inputs) else None


def say_inputs(error: Any, gm: GraphModule, inputs: list[Node]) -> None:
    """Has an error that is about a placeholder of gm name it as the user does.

    inputs: the placeholders of Dynamo's graph that gm was made of, or those of gm itself.
    """
    name, text = getattr(error, "node", None), str(error)
    node = next((n for n in inputs_of(gm) if n.name == name), None)
    if node is None:
        return
    given = node if node in inputs else _input(node, inputs)
    source = getattr(given, "_dynamo_source", None)
    word = word_of(str(getattr(source, "name", "")), getattr(source, "is_input", False))
    if given is None or word is None:
        return
    said, _, _ = text.partition("\n  at ")
    for prefix in (f"{node.name}: ", f"{node.target}: "):
        said = said.removeprefix(prefix)
    error.args = (f"{word}: {said}{_line(given)}",)
