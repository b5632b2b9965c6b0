"""Every overload and function of the tables with a number, a size or None as each of its arguments.

python -m tests.capture.any_operand [PART/OF] prints what differs from eager.  It is a program, as a
builder that takes a number for a tensor ends the process: the last line before says which.
"""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import operator
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only

import dlc.backend  # noqa: F401  (the walk reads tensors by what this sets up)
from dlc import _C, notation  # noqa: F401  (torch.ops.dlc)
from tests.capture.test_functions import PLACES
from tests.capture.test_table import overload

Args = tuple[Any, ...]
SIZE = 3
MANY = 150  # of the candidates for the arguments of a function, how many are tried


class Size:
    """Stands for a symbolic integer, which is SIZE in the call."""

    def __repr__(self) -> str:
        return "size"


INSTEAD: tuple[Any, ...] = (2.0, True, 2, Size(), None)


class Sizes:
    """One symbolic integer, and the fake tensors beside it."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode(shape_env=ShapeEnv())
        one = torch.empty(SIZE)
        context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
        self.size = self.mode.from_tensor(one, symbolic_context=context).shape[0]

    def fake(self, tree: Any) -> Any:
        return tree_map_only(Tensor, lambda t: self.mode.from_tensor(t, static_shapes=True), tree)


SIZES = Sizes()


def is_fed(leaf: Any) -> bool:
    """Is it an input of the graph?"""
    return isinstance(leaf, (Tensor, Size))


def eager(function: Callable[..., Any], args: Args) -> Any:
    """The result, or the exception."""
    args = tree_map(lambda leaf: SIZE if isinstance(leaf, Size) else leaf, args)
    args = tree_map_only(Tensor, torch.clone, args)
    torch.default_generator.manual_seed(0)
    try:
        result = function(*args)
    except Exception as error:
        return error
    same = any(result is leaf for leaf in tree_leaves(args))
    return ValueError("an argument itself") if same and isinstance(result, Tensor) else result


def graph(target: Any, args: Args, result: Any, direct: bool) -> GraphModule:
    """The call alone."""
    made, key = Graph(), "example_value" if direct else "val"
    leaves, spec = tree_flatten(args)
    nodes = []
    for k, leaf in enumerate(leaves):
        if is_fed(leaf):
            node = made.placeholder(f"x{k}")
            node.meta[key] = SIZES.size if isinstance(leaf, Size) else SIZES.fake(leaf)
            leaf = node
        nodes.append(leaf)
    given = tuple(spec.unflatten(nodes))
    of_tensor = direct and getattr(torch.Tensor, getattr(target, "__name__", ""), None) is target
    is_method = of_tensor and isinstance(given[0], Node)
    call = made.call_method(target.__name__, given) if is_method else made.call_function(target, given)
    call.meta[key] = SIZES.fake(result)
    outs: list[Node] = [call]
    if isinstance(result, (tuple, list)):
        outs = []
        for k, each in enumerate(result):
            item = made.call_function(operator.getitem, (call, k))
            item.meta[key] = SIZES.fake(each)
            outs.append(item)
    made.output(tuple(outs))
    return GraphModule(torch.nn.Module(), made)


def compiled(target: Any, args: Args, result: Any, direct: bool) -> Any:
    """The results of the compiled call, or the exception."""
    fed = [SIZE if isinstance(leaf, Size) else leaf.clone() for leaf in tree_leaves(args) if is_fed(leaf)]
    torch.default_generator.manual_seed(0)
    try:
        gm = graph(target, args, result, direct)
        run = _C.compile(gm, None, tier="tcc", cache="", direct=direct)
        return run(*fed) if direct else run(fed)
    except Exception as error:
        return error


def walked(target: Any, args: Args, result: Any, direct: bool) -> None:
    """Eager refuses the call, and the walk may do so too: nothing else may happen."""
    with contextlib.suppress(Exception):
        _C.walk(graph(target, args, result, direct), direct, "own")


def differs(mine: Any, theirs: Any) -> str | None:
    if isinstance(mine, _C.CaptureError):
        return None  # AOTAutograd takes the graph apart
    if isinstance(mine, Exception):
        return f"{type(mine).__name__}: {str(mine).splitlines()[0][:150]}"
    for a, b in zip(tree_leaves(mine), tree_leaves(theirs), strict=True):
        try:
            torch.testing.assert_close(a, b, equal_nan=True)
        except AssertionError as error:
            return str(error).splitlines()[0]
    return None


def check(name: str, target: Any, args: Args, direct: bool) -> Iterator[str]:
    """What differs where one of the arguments is another."""
    base = eager(target, args)
    for k, instead in itertools.product(range(len(args)), INSTEAD):
        if isinstance(instead, Size) and isinstance(args[k], bool):
            continue  # torch makes a guard of such a condition
        changed = (*args[:k], instead, *args[k + 1 :])
        shown = ", ".join("tensor" if isinstance(a, Tensor) else repr(a)[:30] for a in changed)
        print(f"  {name}({shown})", file=sys.stderr, flush=True)
        want = eager(target, changed)
        if isinstance(want, Exception):
            walked(target, changed, base, direct)
            continue
        wrong = differs(compiled(target, changed, want, direct), want)
        if wrong:
            yield f"{name}({shown}): {wrong}"


# ---- arguments that eager takes ----


def of_type(kind: str, rank: int, dtype: torch.dtype) -> list[Any]:
    """What an argument of a type of the schema may be."""
    x = (torch.arange(2**rank) % 2).reshape([2] * rank).to(dtype)
    index = torch.zeros([2] * max(rank, 1), dtype=torch.int64)
    plain: dict[str, list[Any]] = {
        "Tensor": [x, index],
        "Optional[Tensor]": [None, x],
        "List[Tensor]": [[x, x]],
        "List[Optional[Tensor]]": [[index]],
        "number": [1],
        "int": [0, 1],
        "float": [0.5],
        "bool": [False],
        "List[int]": [[0], [2] * rank, [1] * max(rank - 2, 0), [], [1, 1]],
        "List[bool]": [[True] * 3, [True] * 2],
        "str": ["none", "sum", "floor"],
    }
    if kind.startswith("Optional["):
        return [None, *plain.get(kind[9:-1], [])] if kind not in plain else plain[kind]
    return plain.get(kind, [None])


def taken(target: Any, choices: list[list[Any]]) -> Args | None:
    """The first of the choices that eager takes, and gives tensors."""
    for args in itertools.islice(itertools.product(*choices), MANY):
        result = eager(target, args)
        leaves = tree_leaves(result)
        if leaves and all(isinstance(leaf, Tensor) and leaf.layout == torch.strided for leaf in leaves):
            return args
    return None


SHAPES = [(r, d) for r in (2, 4, 3, 1, 0, 5) for d in (torch.float32, torch.int64, torch.bool)]


def of_overload(op: Any) -> Args | None:
    for rank, dtype in SHAPES:
        choices = [
            of_type(str(a.type), rank, dtype) if not a.has_default_value() else [a.default_value]
            for a in op._schema.arguments
            if not a.kwarg_only
        ]
        args = taken(op, choices)
        if args is not None:
            return args
    return None


def of_function(function: Any, parameters: str) -> Args | None:
    needed = [p for p in parameters.split() if "=" not in p and not p.startswith("*")]
    for rank, dtype in SHAPES:
        x = of_type("Tensor", rank, dtype)[0]
        index = torch.zeros(x.shape, dtype=torch.int64)
        any_of: list[Any] = [
            x,
            1,
            0.5,
            [2] * rank,
            index,
            [1, 1],
            [x, x],
            x > 0,
            x.transpose(0, -1) if rank else x,
        ]
        args = taken(function, [[x, [x, x], "ij", 2][: 4 if needed else 0], *([any_of] * (len(needed) - 1))])
        if args is not None:
            return args
    return None


def cases() -> Iterator[tuple[str, Any, str | None]]:
    """Name, overload or function, and the parameters of a function."""
    for name in _C.overloads(True):
        op = overload(name)
        yield name, op, None
    for where, name, parameters, _ in _C.functions():
        for place in where if parameters else "":
            function = getattr(PLACES[place], name, None) if place in PLACES else None
            if function is not None:
                yield f"{place} {name}", function, parameters


def main(part: int, of: int) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    missing = []
    for name, target, parameters in itertools.islice(cases(), part, None, of):
        args = of_overload(target) if parameters is None else of_function(target, parameters)
        if args is None:
            missing.append(name)
        for line in () if args is None else check(name, target, args, parameters is not None):
            print(line, flush=True)
    print("without arguments:", missing)


if __name__ == "__main__":
    main(*map(int, (sys.argv[1] if len(sys.argv) > 1 else "0/1").split("/")))
