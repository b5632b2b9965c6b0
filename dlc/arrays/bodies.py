"""Bodies of loops and branches that are traced: what they read, write and carry, and their graphs.

See flow.py.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._higher_order_ops.utils import reenter_make_fx, unique_graph_id
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch._subclasses.functional_tensor import (
    FunctionalTensor,
    FunctionalTensorMode,
    disable_functional_mode,
)
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, track_tensor_tree

from . import ufuncs  # noqa: F401  (operators of arrays)
from .value import FRAMES, Array, Root, Unknown, constant, is_array, is_symbol, lift, torch_dtype

UNBOUND = Unknown("a name has no value yet", "give it one before the loop or the branch")


class Otherwise(Exception):
    """The body is not the same at each step, or cannot be traced.

    first: but it may be that the first step alone differs; twice: or that every second step is the same.
    """

    def __init__(self, why: str, *, first: bool = False, twice: bool = False) -> None:
        super().__init__(why)
        self.first = first
        self.twice = twice


# -- memory that a body reads and writes ---------------------------------------------------------------


def _memory(tensor: FunctionalTensor) -> int:
    return tensor.elem.untyped_storage()._cdata


def _views(tensor: FunctionalTensor) -> Any:
    return torch._C._functionalization.get_view_meta_sequence(tensor.elem)


def fresh_like(like: Tensor) -> Tensor:
    with disable_functional_mode(), disable_proxy_modes_tracing():
        return torch.empty(tuple(like.shape), dtype=like.dtype)


def plain(tensor: Tensor) -> Tensor:
    torch._sync(tensor)
    return torch._from_functional_tensor(tensor.elem)


def functional(tensor: Tensor) -> FunctionalTensor:
    return FunctionalTensor.to_functional(tensor)


class _Base(NamedTuple):
    outer: FunctionalTensor  # all of a memory, outside of the body
    inner: FunctionalTensor  # and in it
    node: Node | None  # its placeholder, where a graph is recorded
    root: Root

    def written(self) -> bool:
        return bool(torch._functionalize_has_data_mutation(self.inner.elem))


class Frame:
    """A body that is traced. Its operands are found while it runs: each is a placeholder of its graph.

    mode: what records the graph; None: nothing does.
    """

    def __init__(self) -> None:
        self.level = len(FRAMES)
        self.mode = get_proxy_mode()
        self.bases: dict[int, _Base] = {}
        self.seen: dict[int, tuple[Tensor, Tensor]] = {}
        self.lost: list[Root] = []  # from outside: see lose()

    def operand(self, value: Tensor) -> tuple[FunctionalTensor, Node | None]:
        """The value, which nothing has read so far, as an operand, and its placeholder."""
        if self.mode is None:
            return functional(value), None
        tracer = self.mode.tracer
        with disable_proxy_modes_tracing(), tracer.graph.inserting_before(None):
            proxy = tracer.create_proxy("placeholder", f"operand_{len(tracer.graph.nodes)}", (), {})
            track_tensor_tree(value, proxy, constant=None, tracer=tracer)
        return functional(value), proxy.node

    def base(self, outer: FunctionalTensor, root: Root) -> FunctionalTensor:
        found = self.bases.get(id(outer))
        if found is None:
            found = self.bases[id(outer)] = _Base(outer, *self.operand(fresh_like(outer)), root)
        return found.inner

    def inside(self, root: Root, tensor: Any) -> Tensor:
        known = self.seen.get(id(tensor))
        if known is None:
            with self._recording():
                known = self.seen[id(tensor)] = (tensor, self._inside(root, tensor))
        return known[1]

    def _inside(self, root: Root, tensor: FunctionalTensor) -> Tensor:
        whole = root.whole
        for frame in FRAMES[root.level : self.level]:
            whole = frame.base(whole, root)
        if tensor is whole or whole is None or _memory(tensor) != _memory(whole) or _views(whole):
            return self.base(tensor, root)
        return torch._C._functionalization.apply_view_meta_sequence(self.base(whole, root), _views(tensor))

    @contextlib.contextmanager
    def _recording(self) -> Iterator[None]:
        """A view that a body in this one reads first is of this one's graph."""
        if get_proxy_mode() is self.mode:
            yield
        elif self.mode is None:
            with disable_proxy_modes_tracing():
                yield
        else:
            with disable_proxy_modes_tracing(), self.mode:
                yield


@contextlib.contextmanager
def within(frame: Frame) -> Iterator[Frame]:
    FRAMES.append(frame)
    try:
        yield frame
    finally:
        FRAMES.pop()


def lose(roots: Iterable[Root]) -> None:
    """Notes memory that a loop has written to in a copy of its own: nothing may read it from now on.

    Of a body that is traced, what is from outside of it is its Frame's: the body may run again.
    """
    for root in roots:
        if root.level == len(FRAMES):
            root.lost = True
        else:
            FRAMES[-1].lost.append(root)


# -- what is carried -----------------------------------------------------------------------------------


class Kind(NamedTuple):
    """What the value of a name is at each step."""

    dtype: np.dtype
    shape: tuple[Any, ...]
    scalar: bool
    weak: bool

    def __str__(self) -> str:
        if self.weak:
            return "a number of Python's"
        return (
            f"a scalar of {self.dtype}" if self.scalar else f"an array of {self.dtype} of shape {self.shape}"
        )


def array_of(value: Any) -> Array | None:
    """The value as an array, scalar or weak number; None for what is none of these."""
    if is_array(value):
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        return constant(value) if value.dtype.kind in "biufc" else None
    if isinstance(value, (bool, torch.SymBool)):
        return Array(lift(value).tensor, scalar=True)
    if isinstance(value, (int, float, torch.SymInt, torch.SymFloat)):
        return Array(lift(value).tensor, scalar=True, weak=True)
    return None


def kind_of(array: Array) -> Kind:
    return Kind(array.dtype, array.shape, array.scalar, array.weak)


def stays(before: Any, after: Any) -> bool:
    if before is after:
        return True
    same = type(before) is type(after) and not is_array(before) and not is_symbol(before)
    return (
        same
        and isinstance(before, (bool, int, float, complex, str, tuple, np.generic))
        and bool(before == after)
    )


def is_exact(value: Any, kind: Kind) -> bool:
    """Is it a number of Python's that the dtype has?"""
    if is_array(value):
        return value.weak and kind.scalar and value.dtype == kind.dtype
    if isinstance(value, np.generic) or not isinstance(value, (bool, int, float)):
        return False
    if isinstance(value, bool) != (kind.dtype == bool):
        return False
    return bool(kind.scalar and kind.dtype.type(value) == value)


def _own(array: Array, names: str) -> str:
    """Why the memory of an array may be seen from elsewhere; "" if it cannot."""
    if array.root.argument is not None:
        return f"{names} is the argument {array.root.argument!r} at its first step, which it writes to"
    if array.root.users > 1:
        return f"{names} shares memory with another array at its first step, which it writes to"
    return ""


class Trial(NamedTuple):
    """What a run of a body on fake tensors has found."""

    carried: dict[int, Kind]  # by the number of the name
    results: list[Any]  # of the names; of those that are not carried the values themselves
    written: list[_Base]
    read: list[_Base]
    shared: dict[int, list[Root]]  # of carried names: the memory that they may share
    lost: list[Root]  # which carried names have before the first step, and which that writes to


class Known:
    """What was found out about a loop when it was traced before.

    A loop in a loop is traced at each run of the body around it. What it carries is found out by its first
    trial. The others begin with that, so that the runs of a body do not double with each loop around it.
    """

    def __init__(self) -> None:
        self.carried: dict[int, Kind | None] = {}  # None: as it is before the loop
        self.first = ""  # why its first step is done by itself


def form_of(value: Any) -> Any:
    """What a body may find out about a value that it reads, but for sizes. It is not read by this."""
    if is_array(value):
        tensor = value._tensor
        form = None if tensor is None else (tensor.dtype, tensor.dim())
        return "array", form, value._chosen is None, value.scalar, value.weak
    if is_symbol(value):
        return type(value)
    known = isinstance(value, (bool, int, float, str, np.generic))
    return type(value), repr(value) if known else id(value)


Run = Callable[[list[Any]], list[Any]]


def fake_of(kind: Kind) -> Tensor:
    with disable_functional_mode(), disable_proxy_modes_tracing():
        return torch.empty(kind.shape, dtype=torch_dtype(kind.dtype))


class Traced(NamedTuple):
    """A body that has run once."""

    frame: Frame
    values: list[Any]  # of its names before it,
    results: list[Any]  # and after it
    nodes: list[Node | None]  # the placeholders of the names that are carried
    graph: GraphModule | None  # None: nothing is recorded

    def carry(self, k: int, kind: Kind) -> None:
        """Makes name k an operand."""
        tensor, node = self.frame.operand(fake_of(kind))
        self.values[k] = Array(tensor, scalar=kind.scalar, weak=kind.weak)
        self.nodes.append(node)

    def arrange(self, written: list[_Base], between: list[Any], read: list[_Base]) -> dict[int, Node]:
        """Orders the operands: carried, written, between, read, SIZES; it may read less than them.

        The placeholders of written and read, by the ids of what they are outside.
        """
        if self.graph is None:
            return {}
        placed = {id(base.outer): self._placeholder(base) for base in (*written, *read)}
        nodes = list(placed.values())
        first = len(written)
        for node in reversed([*self.nodes, *nodes[:first], *between, *nodes[first:]]):
            next(iter(self.graph.graph.nodes)).prepend(node)
        return placed

    def _placeholder(self, base: _Base) -> Node | None:
        own = self.frame.bases.get(id(base.outer))
        if own is not None:
            return own.node
        with self.graph.graph.inserting_before(None):  # type: ignore[union-attr]
            node = self.graph.graph.placeholder(f"more_{len(self.graph.graph.nodes)}")  # type: ignore[union-attr]
        node.meta["val"] = fresh_like(base.outer)
        return node


def traced(
    run: Run, initial: list[Any], carried: dict[int, Kind], outputs: Callable[[Traced], list[Tensor]]
) -> Traced:
    """Runs a body; outputs: what its graph gives, which is asked in the body."""
    found: Traced | None = None

    def body(*_: Any) -> tuple[Tensor, ...]:
        nonlocal found
        with within(Frame()) as frame:
            found = Traced(frame, list(initial), [], [], None)
            for k, kind in carried.items():
                found.carry(k, kind)
            found.results[:] = run(list(found.values))
            return tuple(map(plain, outputs(found)))

    graph = graph_of(body)
    assert found is not None
    return found._replace(graph=graph)


def same_body(a: Traced, b: Traced) -> bool:
    """Do the graphs of two runs of a body compute the same?"""
    if a.graph is None or b.graph is None:
        return a.graph is b.graph
    pairs = [(x, y) for x, y in zip(a.nodes, b.nodes, strict=False) if x is not None and y is not None]
    for key, base in a.frame.bases.items():
        other = b.frame.bases.get(key)
        if other is not None and base.node is not None and other.node is not None:
            pairs.append((base.node, other.node))
    return len(a.nodes) == len(b.nodes) and _same_graph(a.graph, b.graph, dict(pairs))


def _read_nodes(graph: Graph) -> list[Node]:
    """The nodes that the graph's results need."""
    read: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in read:
            read.add(node)
            read.update(node.all_input_nodes)
    return [node for node in graph.nodes if node in read]


def _same_graph(a: GraphModule, b: GraphModule, to: dict[Node, Node]) -> bool:
    """to: the operands of b by those of a; all others are the same by their places."""
    rest = [[n for n in g.graph.nodes if n.op == "placeholder"] for g in (a, b)]
    own = set(to.values())
    rest = [[n for n in rest[0] if n not in to], [n for n in rest[1] if n not in own]]
    to = to | dict(zip(*rest, strict=False))
    nodes = [[n for n in _read_nodes(g.graph) if n.op != "placeholder"] for g in (a, b)]
    for x, y in itertools.zip_longest(*nodes):
        if x is None or y is None or x.op != y.op:
            return False
        if x.op == "get_attr":
            same = _same_attribute(getattr(a, x.target), getattr(b, y.target))
        else:
            same = x.op == "output" or x.target == y.target
        if not same or not _same_argument(to, [x.args, x.kwargs], [y.args, y.kwargs]):
            return False
        to[x] = y
    return True


def _same_attribute(a: Any, b: Any) -> bool:
    if isinstance(a, GraphModule) and isinstance(b, GraphModule):
        return _same_graph(a, b, {})
    if not (type(a) is type(b) is Tensor) or a.dtype != b.dtype or a.shape != b.shape:
        return False
    with disable_functional_mode(), disable_proxy_modes_tracing(), unset_fake_temporarily():
        return a is b or a.numpy().tobytes() == b.numpy().tobytes()


def _same_argument(to: dict[Node, Node], a: Any, b: Any) -> bool:
    if isinstance(a, Node):
        return to.get(a) is b
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same_argument(to, a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(_same_argument(to, x, y) for x, y in zip(a, b, strict=True))
    return repr(a) == repr(b)


def ordered(bases: Iterable[_Base]) -> list[_Base]:
    """Operands in an order that does not depend on which of them a body reads first.

    What an inner loop reads first is another value when its trial has several runs.
    """
    return sorted(bases, key=lambda base: base.root.number)


def written_in(frame: Frame) -> list[_Base]:
    return ordered(base for base in frame.bases.values() if base.written())


def _agree(
    names: list[str],
    initial: list[Any],
    carried: dict[int, Kind],
    results: list[Any],
    *,
    join: bool,
    last: bool,
) -> list[int]:
    """The names that become what their results are: numbers of Python's that are NumPy's after a step.

    join: of any dtype that has the number; otherwise of the same dtype alone, and only if last: the step was
    done with all that is carried.
    """
    other = []
    for k, kind in list(carried.items()):
        array = array_of(results[k])
        if array is None:
            raise Otherwise(f"{names[k]} is no array and no number after a step")
        found = kind_of(array)
        if found == kind:
            continue
        if join and _join(initial[k], carried, k, array):
            other.append(k)
        elif join or found != kind._replace(weak=False):
            raise Otherwise(f"{names[k]} is {kind} before a step and {found} after it", first=True)
        elif last:
            carried[k] = found
            other.append(k)
    return other


def _join(before: Any, carried: dict[int, Kind], k: int, after: Array | None) -> bool:
    """Carries a number of Python's as what it is after a step, if that has it exactly."""
    found = None if after is None else kind_of(after)
    if found is None or found.weak or not is_exact(before, found):
        return False
    carried[k] = found
    return True


def _is_made(before: Any, after: Any) -> bool:
    """Is it an array that the body makes at each step, before anything reads it?"""
    return before is UNBOUND and is_array(after)


def trial_of(
    run: Run, names: list[str], initial: list[Any], *, join: bool, known: Known
) -> tuple[Traced, Trial]:
    """A body that is run again and again: what it carries, and its graph.

    join: the loop may have no step, and a number of Python's becomes what it is after one. Without it the
    loop has a step. Then a number of Python's may become one of NumPy's if this changes nothing that the step
    computes: the graphs are the same.
    """
    if known.first:
        raise Otherwise(known.first, first=True)
    if known.carried:
        try:
            begin = {k: kind or _kind_before(initial[k]) for k, kind in known.carried.items()}
            return _trial_of(run, names, initial, begin, join=join, known=known)
        except Exception:  # another body than the one before, after all
            known.carried, known.first = {}, ""
    return _trial_of(run, names, initial, {}, join=join, known=known)


def _kind_before(value: Any) -> Kind:
    """The kind of array_of(value), of which nothing is recorded."""
    if is_array(value) or is_symbol(value):
        array = array_of(value)
        assert array is not None
        return kind_of(array)
    known, scalar = np.asarray(value), not isinstance(value, np.ndarray)
    return Kind(known.dtype, known.shape, scalar, scalar and type(value) in (int, float))


def _trial_of(
    run: Run, names: list[str], initial: list[Any], carried: dict[int, Kind], *, join: bool, known: Known
) -> tuple[Traced, Trial]:
    """carried: what it begins with, which becomes what is carried."""
    again = True
    strong: list[int] = []  # the names that are numbers of Python's before the first step alone

    def outputs(found: Traced) -> list[Tensor]:
        nonlocal again
        results = found.results
        changed = [k for k in range(len(names)) if k not in carried and not stays(initial[k], results[k])]
        again = False
        for k in changed:
            made = not join and _is_made(initial[k], results[k])
            array = results[k] if made else None if initial[k] is UNBOUND else array_of(initial[k])
            if array is None:
                what = "has no value" if initial[k] is UNBOUND else f"is of type {type(initial[k]).__name__}"
                raise Otherwise(f"{names[k]} {what} before the first step", first=True)
            carried[k] = kind_of(array)
            if join:
                _join(initial[k], carried, k, array_of(results[k]))
            if made:
                found.carry(k, carried[k])
            again = again or not made
        strong[:] = _agree(names, initial, carried, results, join=join, last=not again)
        again = again or bool(strong)
        if again and not strong:
            return []
        tensors = [_copied(array_of(results[k]), kind) for k, kind in carried.items()]
        return tensors + [base.inner for base in written_in(found.frame)]

    before: Traced | None = None
    for _ in range(2 * len(names) + 2):
        weak = [f"{names[k]} is a number of Python's before a step and {carried[k]} after it" for k in strong]
        try:
            found = traced(run, initial, dict(carried), outputs)
            if weak and not join and not (before and same_body(before, found)):
                raise Otherwise(weak[0], first=True)
        except Otherwise as error:
            known.first = str(error) if error.first and not error.twice else ""
            raise
        if not again:
            break
        before = found
    else:
        raise Otherwise("what it carries is another at each step")
    lost = _check_memory(names, initial, carried, found)
    check_own(names, found.results, carried, None, len(FRAMES))
    known.carried = {
        k: kind if kind.weak != weak or kind.dtype != dtype else None
        for k, kind in carried.items()
        if initial[k] is not UNBOUND
        for dtype, _, _, weak in [_kind_before(initial[k])]
    }
    written = written_in(found.frame)
    read = ordered(base for base in found.frame.bases.values() if not base.written())
    return found, Trial(carried, found.results, written, read, {}, lost)


def _copied(array: Any, kind: Kind) -> Tensor:
    return array.tensor.to(torch_dtype(kind.dtype)).clone()  # type: ignore[no-any-return]


def _zeros(kind: Kind) -> Array:
    """What a name carries into the first step, which makes its value without reading it."""
    zeros = torch.zeros(kind.shape, dtype=torch_dtype(kind.dtype))
    return Array(zeros, scalar=kind.scalar, weak=kind.weak)


def check_own(
    names: list[str], results: list[Any], carried: dict[int, Kind], initial: list[Any] | None, outer: int
) -> None:
    """An array that leaves a body is memory that the body has made, of no other name: it is a copy then.

    initial: of a branch, that may leave its names as they were, or exchange them for other whole arrays from
    outside. outer: the level around the body.
    """
    arrays = {k: results[k] for k, kind in carried.items() if not kind.scalar}
    roots = [array.root for array in results if is_array(array) and not array.scalar]
    for k, array in arrays.items():
        if not is_array(array):
            raise Otherwise(f"{names[k]} is an array that NumPy made")
        if array.root.level <= outer:
            if initial is None or array.level > outer:
                raise Otherwise(f"{names[k]} shares memory with an array from before: write .copy() of it")
        elif roots.count(array.root) > 1:
            raise Otherwise(f"{names[k]} shares memory with another name: write .copy() of it")


def _check_memory(names: list[str], initial: list[Any], carried: dict[int, Kind], body: Traced) -> list[Root]:
    """A carried array is memory of its own in the body; before the first step it may be another's.

    The memory before the first step, of arrays that are written to.
    """
    if body.frame.lost:
        raise Otherwise("a loop in it writes to an array from before it by another name: write .copy() of it")
    values, results = body.values, body.results
    written = [base.root for base in written_in(body.frame)]
    own = {k: values[k].root for k in carried}
    # The names whose memory is written to at this step, or when it has another name at a later one.
    found = {
        k
        for k in carried
        if torch._functionalize_has_data_mutation(values[k]._tensor.elem) or values[k].root.lost
    }
    twice = False
    for _ in carried:
        given = {results[k].root for k in found if is_array(results[k])}
        more = {k for k in carried if own[k] in given} - found
        found, twice = found | more, twice or bool(more)
    lost = [a.root for a in (initial[k] for k in found) if is_array(a) and not a.scalar]
    # And those whose memory another name has after it: the result is a copy.
    kept = {a.root for k, a in enumerate(results) if is_array(a) and a is not values[k]}
    moved = {k for k, kind in carried.items() if not kind.scalar and own[k] in kept} - found
    found, twice = found | moved, twice or bool(moved)
    for k in carried:
        before = initial[k]
        if is_array(before) and before.root in written:
            why = f"{names[k]} is at its first step part of an array that it writes to"
            raise Otherwise(why, first=True, twice=True)
        if is_array(before) and k in found and (why := _own(before, names[k])):
            raise Otherwise(why, first=True, twice=twice)
    return lost


# -- graphs --------------------------------------------------------------------------------------------


#: The sizes of the arguments of the capture under way.
SIZES: list[torch.SymInt] = []


@contextlib.contextmanager
def sizes_of(symbols: list[torch.SymInt]) -> Iterator[None]:
    """A capture of arguments with these sizes."""
    SIZES[:] = symbols
    try:
        yield
    finally:
        SIZES.clear()


def graph_of(function: Callable[..., tuple[Tensor, ...]]) -> GraphModule | None:
    """function as a graph of its own, of SIZES and of what it makes its operands: see Frame.

    None where nothing is recorded; it runs all the same.
    """
    if get_proxy_mode() is None:
        function()
        return None

    def run(*given: Any) -> Any:
        with FunctionalTensorMode():
            return function(*given)

    with disable_functional_mode(), disable_proxy_modes_tracing():
        return reenter_make_fx(run)(*SIZES)  # type: ignore[no-any-return]


def node(
    operator: Any, name: str, graphs: list[Any], args: tuple[Any, ...], like: list[Tensor]
) -> list[Tensor]:
    """The operator's call in the graph that is traced; like: of its results."""
    mode = get_proxy_mode()
    if mode is None:
        return [fresh_like(value) for value in like]
    with disable_functional_mode():
        tracer = mode.tracer
        for graph in graphs:
            graph.recompile()  # its operands have been put in order
            _, unique = unique_graph_id(mode, prefix=f"dlc_{name}")
            tracer.root.register_module(unique, graph)
        proxy = tracer.create_proxy(
            "call_function", operator, pytree.tree_map(tracer.unwrap_proxy, args), {}, name=name
        )
        results = tuple(fresh_like(value) for value in like)
        return list(track_tensor_tree(results, proxy, constant=None, tracer=tracer))


class _Operands(NamedTuple):
    carried: list[Tensor]  # as torch has them below FunctionalTensorMode
    written: list[Tensor]
    read: list[Any]

    def all(self) -> list[Any]:
        return [*self.carried, *self.written, *self.read]


def operands_of(trial: Trial, initial: list[Any]) -> _Operands:
    carried = []
    for k, kind in trial.carried.items():
        array = _zeros(kind) if initial[k] is UNBOUND else array_of(initial[k])
        assert array is not None
        carried.append(plain(array.tensor.to(torch_dtype(kind.dtype))))
    return _Operands(
        carried, [plain(b.outer) for b in trial.written], [*(plain(b.outer) for b in trial.read), *SIZES]
    )


def finished(trial: Trial, results: list[Tensor]) -> list[Any]:
    """The values of the names after it; what it has written is written."""
    found = list(trial.results)
    shared: dict[Root, list[Root]] = {}
    for (k, kind), tensor in zip(trial.carried.items(), results, strict=False):
        root = Root()
        if trial.shared.get(k) and not kind.scalar:
            shared[root] = trial.shared[k]
        found[k] = Array(functional(tensor), scalar=kind.scalar, weak=kind.weak, root=root)
    for base, tensor in zip(trial.written, results[len(trial.carried) :], strict=True):
        base.outer.copy_(functional(tensor))
    for root, roots in shared.items():
        root.may_share(roots)
    lose(trial.lost)
    return found
