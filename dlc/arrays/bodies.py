"""Bodies of loops and branches that are traced: what they read, write and carry, and their graphs.

See flow.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._higher_order_ops.utils import reenter_make_fx, unique_graph_id
from torch._subclasses.functional_tensor import (
    FunctionalTensor,
    FunctionalTensorMode,
    disable_functional_mode,
)
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
    root: Root

    def written(self) -> bool:
        return bool(torch._functionalize_has_data_mutation(self.inner.elem))


class Frame:
    """A body that is traced. given: the operands by the tensors outside that they are; None: a trial."""

    def __init__(self, given: dict[int, Tensor] | None = None) -> None:
        self.level = len(FRAMES)
        self.given = given
        self.bases: dict[int, _Base] = {}
        self.seen: dict[int, tuple[Tensor, Tensor]] = {}

    def base(self, outer: FunctionalTensor, root: Root) -> FunctionalTensor:
        found = self.bases.get(id(outer))
        if found is None:
            if self.given is None:
                value = fresh_like(outer)
            elif id(outer) in self.given:
                value = self.given[id(outer)]
            else:
                raise Otherwise("it reads another array each time that it is traced")
            found = self.bases[id(outer)] = _Base(outer, functional(value), root)
        return found.inner

    def inside(self, root: Root, tensor: Any) -> Tensor:
        known = self.seen.get(id(tensor))
        if known is None:
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
def within(frame: Frame) -> Iterator[Frame]:
    FRAMES.append(frame)
    try:
        yield frame
    finally:
        FRAMES.pop()


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
    """What a run of the bodies on fake tensors has found."""

    carried: dict[int, Kind]  # by the number of the name
    results: list[Any]  # of the names; of those that are not carried the values themselves
    written: list[_Base]
    read: list[_Base]
    shared: dict[int, list[Root]]  # of carried names: the memory that they may share


Run = Callable[[list[Any]], list[Any]]


def carried_values(
    initial: list[Any], carried: dict[int, Kind], make: Callable[[Kind, int], Tensor]
) -> list[Any]:
    found = list(initial)
    for place, (k, kind) in enumerate(carried.items()):
        found[k] = Array(make(kind, place), scalar=kind.scalar, weak=kind.weak)
    return found


def fake_of(kind: Kind, place: int) -> Tensor:
    with disable_functional_mode(), disable_proxy_modes_tracing():
        value = torch.empty(kind.shape, dtype=torch_dtype(kind.dtype))
    return functional(value)


def tried(
    run: Run, initial: list[Any], carried: dict[int, Kind]
) -> tuple[Frame, list[Any], list[Any], list[Any]]:
    with disable_proxy_modes_tracing(), within(Frame()) as frame:
        values = carried_values(initial, carried, fake_of)
        results = run(values)
        arrays = [array_of(results[k]) if k in carried else None for k in range(len(results))]
        for array in arrays:
            if array is not None:
                array.tensor  # noqa: B018  (what it reads is an operand)
    return frame, values, results, arrays


def _agree(
    names: list[str], initial: list[Any], carried: dict[int, Kind], arrays: list[Any], *, join: bool
) -> bool:
    """Have the results the kinds of what is carried?  join: a number of Python's becomes what they are."""
    same = True
    for k, kind in list(carried.items()):
        array = arrays[k]
        if array is None:
            raise Otherwise(f"{names[k]} is no array and no number after a step")
        with within(Frame()):
            found = kind_of(array)
        if found == kind:
            continue
        if not (join and is_exact(initial[k], found) and not found.weak):
            raise Otherwise(f"{names[k]} is {kind} before a step and {found} after it", first=True)
        carried[k], same = found, False
    return same


def trial_of(run: Run, names: list[str], initial: list[Any], *, join: bool) -> Trial:
    """Finds what a body that is run again and again carries."""
    carried: dict[int, Kind] = {}
    for _ in range(2 * len(names) + 2):
        frame, values, results, arrays = tried(run, initial, carried)
        changed = [k for k in range(len(names)) if k not in carried and not stays(initial[k], results[k])]
        for k in changed:
            array = None if initial[k] is UNBOUND else array_of(initial[k])
            if array is None:
                what = "has no value" if initial[k] is UNBOUND else f"is of type {type(initial[k]).__name__}"
                raise Otherwise(f"{names[k]} {what} before the first step", first=True)
            carried[k] = kind_of(array)
        if not changed and _agree(names, initial, carried, arrays, join=join):
            break
    else:
        raise Otherwise("what it carries is another at each step")
    _check_memory(names, initial, carried, frame, values, results)
    check_own(names, results, carried, None, len(FRAMES))
    written = [base for base in frame.bases.values() if base.written()]
    read = [base for base in frame.bases.values() if not base.written()]
    return Trial(carried, results, written, read, {})


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


def _check_memory(
    names: list[str],
    initial: list[Any],
    carried: dict[int, Kind],
    frame: Frame,
    values: list[Any],
    results: list[Any],
) -> None:
    """A carried array is memory of its own in the body; before the first step it may be another's."""
    written = [base.root for base in frame.bases.values() if base.written()]
    own = {k: values[k].root for k in carried}
    # The names whose memory is written to at this step, or when it has another name at a later one.
    found = {k for k in carried if torch._functionalize_has_data_mutation(values[k]._tensor.elem)}
    twice = False
    for _ in carried:
        given = {results[k].root for k in found if is_array(results[k])}
        more = {k for k in carried if own[k] in given} - found
        found, twice = found | more, twice or bool(more)
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


def graph_of(function: Callable[..., Any], samples: list[Any]) -> Any:
    """function of tensors as a graph of its own; it is called with tensors below FunctionalTensorMode.

    None in a trial, which has no graph.
    """
    if get_proxy_mode() is None:
        return None

    def run(*given: Any) -> Any:
        with FunctionalTensorMode():
            return function(*given)

    with disable_functional_mode(), disable_proxy_modes_tracing():
        fresh = [torch.empty(tuple(s.shape), dtype=s.dtype) if isinstance(s, Tensor) else s for s in samples]
        return reenter_make_fx(run)(*fresh)


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
        array = array_of(initial[k])
        assert array is not None
        carried.append(plain(array.tensor.to(torch_dtype(kind.dtype))))
    return _Operands(
        carried, [plain(b.outer) for b in trial.written], [*(plain(b.outer) for b in trial.read), *SIZES]
    )


def body_of(run: Run, trial: Trial, initial: list[Any]) -> Callable[..., Any]:
    """run as a function of its operands, which gives what is carried and what is written."""

    def body(*given: Any) -> tuple[Tensor, ...]:
        with frame_of(trial, given) as frame:
            results = run(
                carried_values(initial, trial.carried, lambda kind, place: functional(given[place]))
            )
            arrays = [array_of(results[k]) for k in trial.carried]
            tensors = [
                array.tensor.to(torch_dtype(kind.dtype)).clone()
                for array, kind in zip(arrays, trial.carried.values(), strict=True)
            ]
            tensors += [frame.base(b.outer, b.root) for b in trial.written]
            check_written(frame, trial)
            return tuple(map(plain, tensors))

    return body


def check_written(frame: Frame, trial: Trial, *, none: bool = False) -> None:
    known = set() if none else {id(b.outer) for b in trial.written}
    if any(base.written() and key not in known for key, base in frame.bases.items()):
        raise Otherwise("it writes to another array each time that it is traced")


@contextlib.contextmanager
def frame_of(trial: Trial, given: tuple[Any, ...]) -> Iterator[Frame]:
    bases = [*trial.written, *trial.read]
    n = len(trial.carried)
    operands = {id(b.outer): value for b, value in zip(bases, given[n : n + len(bases)], strict=True)}
    with within(Frame(operands)) as frame:
        yield frame


def finished(trial: Trial, initial: list[Any], results: list[Tensor], like: list[Any]) -> list[Any]:
    """The values of the names after it; what it has written is written."""
    found = list(like)
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
    return found
