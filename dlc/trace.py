"""Capturing a function for dlc.jit: one run on fake tensors whose sizes are symbols.

Every size of two or more is a symbol of its own, a stride is what sizes it is made of or a symbol, a float
is a symbol. Whatever the function asks of them (is a size equal to another, above ten, a multiple of eight)
becomes a condition of the variant, which the C side checks at each call.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import Source
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.overrides import TorchFunctionMode

from ._C import CaptureError
from .decompositions import decompositions
from .layouts import LaidAsEager
from .variables import is_definition, is_plain

# A symbol: its name, the argument it is read from, "size" or "stride", the axis, its range (None: no end).
Symbol = tuple[str, int, str, int, int, "int | None"]

_lock = threading.RLock()


@contextlib.contextmanager
def capturing() -> Iterator[None]:
    """One capture at a time: tracing has state that belongs to the process.

    What torch logs of a failing operator is kept quiet: eager's own error follows.
    """
    dynamo = sys.modules.get("torch._dynamo.convert_frame")
    log = logging.getLogger("torch._subclasses.fake_tensor")
    with dynamo.compile_lock if dynamo else contextlib.nullcontext(), _lock:
        before, log.disabled = log.disabled, True
        try:
            yield
        finally:
            log.disabled = before


class Argument(Source):
    """Where a symbol comes from, as torch's errors name it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    @property
    def _name_template(self) -> str:
        return self.text


class Never(CaptureError):
    """No capture of the function does without what is refused."""


class OfNumPy(Never):
    """A function of tensors and numbers returns an array of NumPy's."""


class Unsupported(Exception):
    """A condition that has no form in whole numbers."""


class Captured(NamedTuple):
    """A graph, and how calls and results map to it; see Jit.add in csrc/capture/jit/jit.c."""

    graph: GraphModule
    inputs: list[int]
    symbols: list[Symbol]
    guards: list[int | str]
    leaves: list[tuple[str, Any]]
    shape: Any
    writes: list[int]  # the arguments that the graph writes to


# -- arguments -----------------------------------------------------------------------------------------


class _Symbols:
    """The symbols of one capture."""

    def __init__(self, static: bool, fixed: int) -> None:
        self.env = ShapeEnv(duck_shape=False)
        self.static = static
        self.fixed = fixed  # arguments from this one on have the sizes that they have
        self.places: list[tuple[Any, int, str, int]] = []

    def integer(self, value: int, name: str, argument: int, what: str, axis: int) -> Any:
        if value in (0, 1) or self.static:
            return value
        source = Argument(f"{name}.{what}({axis})")
        symbol = self.env.create_symbol(value, source, DimDynamic.DYNAMIC)
        self.places.append((symbol, argument, what, axis))
        return self.env.create_symintnode(symbol, hint=value, source=source)

    def number(self, value: float, name: str) -> Any:
        source = Argument(name)
        symbol = self.env.create_unspecified_symbol(value, source, DimDynamic.DYNAMIC)
        return self.env.create_symfloatnode(symbol, hint=value, source=source)

    def layout(self, tensor: Tensor, name: str, argument: int) -> tuple[list[Any], list[Any]]:
        """Sizes, and strides: products of sizes where they are such products."""
        shape = tensor.shape
        if argument >= self.fixed:
            return list(shape), list(tensor.stride())
        sizes = [self.integer(n, name, argument, "size", ax) for ax, n in enumerate(shape)]
        actual = list(tensor.stride())
        if tensor.numel() == 0:
            actual = list(torch.empty(shape, device="meta").stride())
        strides: list[Any] = [0] * len(sizes)
        products: dict[int, Any] = {1: 1}
        for ax in sorted(range(len(sizes)), key=lambda ax: (actual[ax], -ax)):
            if shape[ax] == 1:
                continue
            known = products.get(actual[ax])
            strides[ax] = self.integer(actual[ax], name, argument, "stride", ax) if known is None else known
            if shape[ax]:
                products[actual[ax] * shape[ax]] = strides[ax] * sizes[ax]
        for ax in reversed(range(len(sizes))):  # of an axis of one element: as if it were dense
            if shape[ax] == 1:
                inner = ax + 1 < len(sizes)
                strides[ax] = strides[ax + 1] * sizes[ax + 1] if inner else 1
        return sizes, strides

    def ranges(self) -> list[Symbol]:
        symbols: list[Symbol] = []
        for symbol, argument, what, axis in self.places:
            allowed = self.env.var_to_range[symbol]
            low = int(allowed.lower) if allowed.lower.is_Integer else 0
            high = int(allowed.upper) if allowed.upper.is_Integer else None
            symbols.append((str(symbol), argument, what, axis, max(low, 0), high))
        return symbols


# -- conditions ----------------------------------------------------------------------------------------

_FOLDED = {
    "Add": "+",
    "Mul": "*",
    "Max": "max",
    "Min": "min",
    "And": "and",
    "Or": "or",
    "FloorDiv": "//",
    "CleanDiv": "//",
    "Mod": "%",
    "PythonMod": "%",
}
_COMPARED = {
    "Equality": ("==", False),
    "Unequality": ("!=", False),
    "StrictLessThan": ("<", False),
    "LessThan": ("<=", False),
    "StrictGreaterThan": ("<", True),
    "GreaterThan": ("<=", True),
}


def _program(expression: Any) -> list[int | str]:
    """A condition or a size as stack code; raises Unsupported."""
    kind = type(expression).__name__
    if expression.is_Symbol and expression.is_integer:
        return [str(expression)]
    if expression.is_Integer:
        return [int(expression)]
    if kind in ("BooleanTrue", "BooleanFalse"):
        return [int(bool(expression))]
    if kind in _COMPARED:
        word, swap = _COMPARED[kind]
        left, right = map(_program, expression.args)
        return right + left + [word] if swap else left + right + [word]
    if kind == "Not":
        return [*_program(expression.args[0]), "not"]
    if kind in _FOLDED:
        code = _program(expression.args[0])
        for operand in expression.args[1:]:
            code += [*_program(operand), _FOLDED[kind]]
        return code
    if kind in ("Pow", "PowByNatural") and expression.args[1].is_Integer and 0 < expression.args[1] < 9:
        base, power = _program(expression.args[0]), int(expression.args[1])
        return base + [item for _ in range(power - 1) for item in (*base, "*")]
    raise Unsupported(str(expression))


def _guards(env: ShapeEnv) -> list[int | str]:
    return [item for guard in env.guards for item in (*_program(guard.expr), "need")]


# -- the run -------------------------------------------------------------------------------------------


class Scalar:
    """A result without axes that is a scalar of NumPy's."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _wrapped(value: Any) -> Any:
    return FunctionalTensor.to_functional(value) if isinstance(value, Tensor) else value


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, FunctionalTensor):
        torch._sync(leaf)
        return torch._from_functional_tensor(leaf.elem)
    return leaf


def _is_written(tensor: FunctionalTensor) -> bool:
    data = torch._functionalize_has_data_mutation(tensor.elem)
    return bool(data or torch._functionalize_has_metadata_mutation(tensor.elem))


class _Watch(TorchFunctionMode):
    """Finds the user's line after which a tensor has been written to."""

    def __init__(self, tensor: FunctionalTensor) -> None:
        super().__init__()
        self.tensor, self.line = tensor, ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from .arrays.value import user_line

        result = func(*args, **(kwargs or {}))
        if not self.line and _is_written(self.tensor):
            self.line = user_line()
        return result


def _line_of_write(fn: Callable[..., Any], args: tuple[Any, ...], k: int) -> str:
    """Where fn writes to argument k, found by another run of it on fake tensors; "" where that fails."""
    given = [_wrapped(argument) for argument in args]
    watch = _Watch(given[k])
    with contextlib.suppress(Exception), watch:
        fn(*given)
    return watch.line


def line_of_write(fn: Callable[..., Any], like: tuple[Any, ...], k: int) -> str:
    """The user's line that writes to argument k first; like: has tensors of the arguments' forms."""

    def fake(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")

    above = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)
    with (
        capturing(),
        torch.inference_mode(False),
        torch.no_grad(),
        FakeTensorMode(allow_non_fake_inputs=True),
    ):
        fakes = tuple(map(fake, like))
        with torch._C._ExcludeDispatchKeyGuard(above), FunctionalTensorMode():
            return _line_of_write(fn, fakes, k)


def _check_writes(name: str, tensor: FunctionalTensor, line: Callable[[], str]) -> None:
    if _is_written(tensor):
        place = f" ({found})" if (found := line()) else ""
        raise CaptureError(
            f"it writes to its argument {name!r}{place}: return a new tensor instead, or use "
            'torch.compile(fn, backend="dlc")'
        )


def _is_changed(argument: FunctionalTensor, written: list[int] | None) -> bool:
    """Has the function written to it, as it may, and left its shape?"""
    if written is None or torch._functionalize_has_metadata_mutation(argument.elem):
        return False
    return bool(torch._functionalize_has_data_mutation(argument.elem))


def _memory_of(tensor: FunctionalTensor) -> int:
    """What a tensor and its views have in common, as a number to compare."""
    return tensor.elem.untyped_storage()._cdata


def _view_of(argument: Tensor, leaf: FunctionalTensor) -> Tensor:
    """The view of the argument that the leaf is of its traced form."""
    sequence = torch._C._functionalization.get_view_meta_sequence(leaf.elem)
    return torch._C._functionalization.apply_view_meta_sequence(argument, sequence)


def functional(
    fn: Callable[..., Any],
    names: list[str],
    objects: tuple[Any, ...],
    shape: list[Any],
    written: list[int] | None = None,
    *,
    may_write: int | None = None,
    of_user: bool = False,
) -> Callable[..., list[Any]]:
    """fn with every write made a new tensor; gives the flat list of its tensors and symbols.

    objects: what it may return besides numbers and the like; shape receives what becomes of each leaf of its
    result, and the tree of them; written the arguments that it writes to, whose new values are behind the
    results; may_write: they are copied to the arguments instead, of which only the first so many may be
    written to. Without a list a write to an argument raises CaptureError, as a new shape of one does;
    of_user: fn is the user's function, and the error has its line.
    """

    def run(*args: Any) -> list[Any]:
        results: list[Any] = []
        leaves: list[tuple[str, Any]] = []
        above = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)
        with torch._C._ExcludeDispatchKeyGuard(above), FunctionalTensorMode():
            given = [_wrapped(argument) for argument in args]
            returned, tree = pytree.tree_flatten(fn(*given))
            changed = []
            for k, (name, argument) in enumerate(zip(names, given, strict=True)):
                refused = may_write is not None and k >= may_write
                if isinstance(argument, FunctionalTensor) and (refused or not _is_changed(argument, written)):
                    line = functools.partial(_line_of_write, fn, args, k) if of_user else str
                    _check_writes(name, argument, line)
                elif isinstance(argument, FunctionalTensor):
                    changed.append(k)
            stored = {} if may_write is None else {_memory_of(given[k]): k for k in changed}
            views = {}  # of what is written to: made of the argument, and not of its new value
            for leaf in returned:
                leaf = bool(leaf) if isinstance(leaf, torch.SymBool) else leaf
                kind, leaf = ("scalar", leaf.tensor) if isinstance(leaf, Scalar) else ("result", leaf)
                same = [k for k, argument in enumerate(given) if argument is leaf]
                if same:
                    leaves.append(("argument", same[0]))
                elif isinstance(leaf, (Tensor, torch.SymInt, torch.SymFloat)):
                    if isinstance(leaf, FunctionalTensor) and _memory_of(leaf) in stored:
                        views[len(results)] = leaf
                    leaves.append((kind, len(results)))
                    results.append(_plain(leaf))
                elif is_plain(leaf) or is_definition(leaf) or any(leaf is object_ for object_ in objects):
                    leaves.append(("object", leaf))
                else:
                    kind_of = OfNumPy if isinstance(leaf, (np.ndarray, np.generic)) else CaptureError
                    raise kind_of(
                        f"it returns an object of type {type(leaf).__name__}: return tensors, numbers, or "
                        "lists, tuples and dicts of them"
                    )
            values = [_plain(given[k]) for k in changed]
        if may_write is None:
            results += values
        else:
            for at, leaf in views.items():
                results[at] = _view_of(args[stored[_memory_of(leaf)]], leaf)
            for k, value in zip(changed, values, strict=True):
                args[k].copy_(value)
        shape[:] = [leaves, tree]
        if written is not None:
            written[:] = changed
        return results

    return run


def _filled(tree: pytree.TreeSpec, leaves: Iterator[Any]) -> Any:
    """The tree with the next leaves; of a torch.Size pytree itself would make a tuple."""
    if tree.is_leaf():
        return next(leaves)
    parts = [_filled(child, leaves) for child in tree.children()]
    if tree.type is torch.Size:
        return torch.Size(parts)
    return pytree.SUPPORTED_NODES[tree.type].unflatten_fn(parts, tree.context)


def _shape(tree: pytree.TreeSpec) -> Any:
    """None for one leaf, tuple for a tuple of leaves, else a function of the list of leaves."""
    if tree.is_leaf():
        return None
    if tree.type is tuple and all(child.is_leaf() for child in tree.children()):
        return tuple
    return lambda leaves: _filled(tree, iter(leaves))


def storage_of(value: Any) -> int | None:
    """The storage that a tensor lies in, as a number to compare; None for what is no tensor."""
    return value.untyped_storage()._cdata if isinstance(value, Tensor) else None


def _asks_for_sizes(node: Node) -> bool:
    """Is it an operator of torch's whose result is a truth value, or a tensor on the device meta?"""
    value = node.meta.get("val")
    of_torch = isinstance(node.target, OpOverload) and node.target.namespace in ("aten", "prims")
    return of_torch and (value is None or (isinstance(value, Tensor) and value.device.type == "meta"))


def _graph_of(run: Callable[..., list[Any]], args: list[Any]) -> GraphModule:
    """The operators that run calls.

    Forward mode also calls some for their sizes alone: it compares the sizes of tensors and tangents, and
    computes with tangents of zeros on the device meta. These leave the graph, as nothing reads them.
    """
    graph = make_fx(run, decompositions())(*args)
    for node in reversed(graph.graph.nodes):
        if _asks_for_sizes(node) and not node.users and not node.is_impure():
            graph.graph.erase_node(node)
    return graph


def _check_storage(graph: GraphModule) -> None:
    """as_strided counts from the start of the storage, and of an argument's that is not known."""
    nodes = graph.graph.nodes
    of_arguments = {storage_of(node.meta.get("val")) for node in nodes if node.op == "placeholder"}
    for node in nodes:
        addresses = str(node.target).startswith("aten.as_strided")
        if addresses and storage_of(node.args[0].meta.get("val")) in of_arguments:
            raise CaptureError("it addresses the storage of an argument (as_strided)")


def capture(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    names: tuple[str, ...],
    *,
    static: bool,
    floats: bool,
    fixed: int | None = None,
) -> Captured:
    """The graph of fn(*args) for all sizes that take the same way through it.

    static: these sizes alone; floats: Python's floats are inputs of the graph, else constants; fixed: how
    many arguments come before those whose sizes are constants. What fn raises comes through; raises
    Unsupported when such a capture is too general for the conditions.
    """
    symbols = _Symbols(static, len(args) if fixed is None else fixed)
    mode = FakeTensorMode(shape_env=symbols.env, allow_non_fake_inputs=True)
    inputs = [k for k, a in enumerate(args) if isinstance(a, Tensor) or (floats and type(a) is float)]

    def fake(k: int) -> Any:
        argument = args[k]
        if not isinstance(argument, Tensor):
            return symbols.number(argument, names[k])
        sizes, strides = symbols.layout(argument, names[k], k)
        return torch.empty_strided(sizes, strides, dtype=argument.dtype, device="cpu")

    def call(*given: Any) -> Any:
        filled = list(args)
        for k, value in zip(inputs, given, strict=True):
            filled[k] = value
        with LaidAsEager():
            return fn(*filled)

    shape: list[Any] = []
    written: list[int] = []
    own = len([k for k in inputs if fixed is None or k < fixed])
    with torch.inference_mode(False), torch.no_grad(), mode, enable_python_dispatcher():
        fakes = [fake(k) for k in inputs]
        names_of = [names[k] for k in inputs]
        run = functional(call, names_of, args, shape, written, may_write=own, of_user=True)
        try:
            graph = _graph_of(run, fakes)
        except RuntimeError as error:
            if "mutating a non-functional tensor" not in str(error):
                raise
            raise CaptureError("it writes to a tensor that is not an argument") from error
    _check_storage(graph)
    if symbols.env.deferred_runtime_asserts:
        raise CaptureError(
            "it asserts something of a size that depends on data: reshape, view or index such a result (that "
            'of x[mask] or nonzero) outside of the function, or use torch.compile(fn, backend="dlc")'
        )
    leaves, tree = shape
    return Captured(
        graph,
        inputs,
        symbols.ranges(),
        _guards(symbols.env),
        [(kind, inputs[value] if kind == "argument" else value) for kind, value in leaves],
        _shape(tree),
        [inputs[k] for k in written],
    )


def capture_graph(graph: GraphModule, args: list[Any]) -> tuple[GraphModule, list[tuple[str, Any]]]:
    """A graph of torch's functions as one of operators, and what becomes of each of its outputs.

    args: fake tensors and symbols. Raises CaptureError for a write to an argument and for a result that is
    a view of one.
    """
    shape: list[Any] = []
    names = [str(node.target) for node in graph.graph.nodes if node.op == "placeholder"]
    without_writes = functional(graph, names, (), shape)

    def run(*given: Any) -> list[Any]:
        results = without_writes(*given)
        storages = {storage_of(a) for a in given} - {None}
        if any(storage_of(r) in storages for r in results):
            raise CaptureError("a result is a view of an argument")
        return results

    with torch.no_grad(), enable_python_dispatcher():
        captured = _graph_of(run, args)
    _check_storage(captured)
    return captured, shape[0]
