"""What a program in a file is called with, and what it gives: names, and containers as JSON.

A node is one of
    {"array": k}            an array: parameter k of the program, or its result k
    {"input": k}            of a result: parameter k, unchanged
    {"unread": shape}       of an argument: an array that the program does not read
    {"value": v}            None, a truth value, a number or a text, always this one
    {"tuple": [node, ..]}, {"list": [node, ..]}, {"dict": {key: node, ..}}
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import FileError

MOST_DEPTH = 32
_PLAIN = (bool, int, float, str, type(None))
Node = dict[str, Any]


@dataclass
class State:
    """A tensor that a call writes: parameter and result of the program.

    stored: of the model; else it is an argument, and a call gives its new value as well.
    """

    name: str
    param: int
    result: int
    stored: bool


@dataclass
class Weight:
    """Parameter `param` of the program is one of these arrays, of the file or of the user's own."""

    param: int
    names: list[str]
    own: bool = False  # of the user's own file


@dataclass
class Signature:
    name: str
    inputs: list[tuple[str, Node]]  # the arguments in order
    keywords: int  # how many of the last ones have to be named
    output: Node
    weights: list[Weight] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    example: dict[str, str] = field(default_factory=dict)  # by parameter, the array of the file

    def to_json(self) -> str:
        rows = {
            "name": self.name,
            "inputs": [{"name": name, "node": node} for name, node in self.inputs],
            "keywords": self.keywords,
            "output": self.output,
            "weights": [vars(weight) for weight in self.weights],
            "states": [vars(state) for state in self.states],
            "example": self.example,
        }
        return json.dumps(rows, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, params: int, results: int) -> Signature:
        """Checked against the program's numbers of parameters and results; raises FileError."""
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise FileError(f"its signature is no JSON: {reason}") from None
        try:
            made = cls(
                _text(rows["name"]),
                [(_text(row["name"]), _checked(row["node"], params, None)) for row in _list(rows["inputs"])],
                _number(rows["keywords"], len(rows["inputs"]) + 1),
                _checked(rows["output"], params, results),
                [_weight(row, params) for row in _list(rows["weights"])],
                [_state(row, params, results) for row in _list(rows["states"])],
                {str(_number(int(k), params)): _text(v) for k, v in rows["example"].items()},
            )
        except FileError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise FileError(f"its signature is not one: {type(error).__name__}: {error!s:.80}") from None
        made._check(params)
        return made

    def _check(self, params: int) -> None:
        """Each parameter comes from one place."""
        at = [weight.param for weight in self.weights]
        at += [state.param for state in self.states if state.stored]
        at += [k for _, node in self.inputs for k in leaves(node)]
        if sorted(at) != list(range(params)):
            raise FileError("its signature gives a parameter of the program twice, or not at all")


# -- reading what is not trusted -----------------------------------------------------------------------


def _text(value: Any) -> str:
    if type(value) is not str:
        raise FileError(f"its signature has {value!r:.40} where a text is")
    return value


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise FileError(f"its signature has {value!r:.40} where a list is")
    return value


def _number(value: Any, below: int) -> int:
    if type(value) is not int or not 0 <= value < below:
        raise FileError(f"its signature has {value!r:.40} where a number below {below} is")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise FileError(f"its signature has {value!r:.40} where true or false is")
    return value


def _weight(row: Any, params: int) -> Weight:
    names = [_text(name) for name in _list(row["names"])]
    if not names:
        raise FileError("its signature has a weight without a name")
    return Weight(_number(row["param"], params), names, _flag(row["own"]))


def _state(row: Any, params: int, results: int) -> State:
    numbers = _number(row["param"], params), _number(row["result"], results)
    return State(_text(row["name"]), *numbers, _flag(row["stored"]))


def _checked(node: Any, params: int, results: int | None, depth: int = 0) -> Node:
    """results: None for an argument."""
    if type(node) is not dict or len(node) != 1 or depth > MOST_DEPTH:
        raise FileError(f"its signature has {node!r:.40} where a container is, or is nested too deeply")
    ((kind, content),) = node.items()
    if kind == "array":
        _number(content, params if results is None else results)
    elif kind == "input" and results is not None:
        _number(content, params)
    elif kind == "value" and isinstance(content, _PLAIN):
        pass
    elif kind == "unread" and results is None:
        _text(content)
    elif kind in ("tuple", "list"):
        for item in _list(content):
            _checked(item, params, results, depth + 1)
    elif kind == "dict" and type(content) is dict:
        for item in content.values():
            _checked(item, params, results, depth + 1)
    else:
        raise FileError(f"its signature has a container of kind {kind!r:.40}")
    return node


# -- containers ----------------------------------------------------------------------------------------


def leaves(node: Node) -> Iterator[int]:
    """The parameters or results of a node, in order."""
    ((kind, content),) = node.items()
    if kind == "array":
        yield content
    elif kind in ("tuple", "list"):
        for item in content:
            yield from leaves(item)
    elif kind == "dict":
        for item in content.values():
            yield from leaves(item)


def describe(value: Any, leaf: Callable[[Any], Node | None], where: str) -> Node:
    """The node of a value; leaf: of what is a leaf, else None.  Raises FileError for what has no form."""
    found = leaf(value)
    if found is not None:
        return found
    if isinstance(value, dict):
        if not all(type(key) is str for key in value):
            raise FileError(f"{where} is a dict with keys that are no texts")
        return {"dict": {key: describe(item, leaf, where) for key, item in value.items()}}
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [describe(item, leaf, where) for item in value]}
    if isinstance(value, _PLAIN) and not (isinstance(value, float) and not math.isfinite(value)):
        return {"value": value}
    raise FileError(f"{where} has an object of type {type(value).__name__}, which has no form in a file")


def take(node: Node, value: Any, into: dict[int, Any], where: str) -> None:
    """Finds the arrays of an argument; raises TypeError or ValueError for another structure."""
    ((kind, content),) = node.items()
    if kind == "array":
        into[content] = value
    elif kind == "unread":
        pass
    elif kind == "value":
        if type(value) is not type(content) or value != content:
            raise ValueError(f"{where} is {value!r:.60}, and the program was saved for {content!r:.60} alone")
    elif kind == "dict":
        if not isinstance(value, dict) or set(value) != set(content):
            raise TypeError(f"{where} is a dict of {', '.join(content)}")
        for key, item in content.items():
            take(item, value[key], into, f"{where}[{key!r}]")
    else:
        if not isinstance(value, (tuple, list)) or len(value) != len(content):
            raise TypeError(f"{where} is a {kind} of {len(content)}")
        for k, item in enumerate(content):
            take(item, value[k], into, f"{where}[{k}]")


def give(node: Node, results: Callable[[str, int], Any]) -> Any:
    """The value of a node; results: called with "array" or "input" and its number."""
    ((kind, content),) = node.items()
    if kind in ("array", "input"):
        return results(kind, content)
    if kind == "value":
        return content
    if kind == "dict":
        return {key: give(item, results) for key, item in content.items()}
    made = [give(item, results) for item in content]
    return tuple(made) if kind == "tuple" else made


def shown(node: Node, types: list[str]) -> str:
    """A node as people read it; types: of parameters or results."""
    ((kind, content),) = node.items()
    if kind in ("array", "input"):
        return types[content] if kind == "array" else f"parameter {content}"
    if kind in ("value", "unread"):
        return repr(content) if kind == "value" else f"{content}, not read"
    if kind == "dict":
        return "{" + ", ".join(f"{key}: {shown(item, types)}" for key, item in content.items()) + "}"
    items = ", ".join(shown(item, types) for item in content)
    return f"({items}{',' * (len(content) == 1)})" if kind == "tuple" else f"[{items}]"


_SIZE = re.compile(r"(\w+)(?: in (-?\d+)\.\.(inf|-?\d+)(?: % (\d+))?)?")


def sizes_of(text: str) -> dict[str, tuple[int, int | None, int]]:
    """By size of a program's text: the least, the most (None: there is none), what it is a multiple of."""
    header = re.search(r"^fn \w+\[([^\]]*)\]\(", text, re.MULTILINE)
    found = {}
    for part in header.group(1).split(", ") if header else ():
        if match := _SIZE.fullmatch(part.strip()):
            name, low, high, multiple = match.groups()
            most = None if high in (None, "inf") else int(high)
            found[name] = (int(low or 0), most, int(multiple or 1))
    return found
