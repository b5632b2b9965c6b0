"""Variants of a dlc.jit function for calls with NumPy arrays."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import operator
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.utils._pytree as pytree
from numpy.lib.stride_tricks import as_strided
from torch import Tensor
from torch._guards import active_fake_mode

from .. import trace
from .._C import CaptureError
from . import (  # noqa: F401  (they register what they compute)
    bodies,
    called,
    derived,
    draws,
    making,
    methods,
    names,
    products,
    reductions,
    scope,
    searching,
    unsigned,
    windows,
)
from .value import FEW, Array, Root, Unknown, constant, is_array, is_symbol, lift, number, refuse

#: So much work is done to find out whether two arrays share memory; after that they are taken to.
MAX_WORK = 100_000


def is_numpy(value: Any) -> bool:
    """Does an argument of this kind give a function NumPy's meaning?"""
    return type(value) is np.ndarray or draws.is_generator(value)


def readable(array: np.ndarray) -> bool:
    """Can the C side read it where it is?"""
    long = (s for n, s in zip(array.shape, array.strides, strict=True) if n > 1)
    whole = all(s >= 0 and s % array.itemsize == 0 for s in long)
    return whole and array.dtype.isnative and array.flags.aligned


def _ordinary(value: Any) -> Any:
    """An array that can be read where it is, of the same values; anything else as it is."""
    if type(value) is not np.ndarray or readable(value):
        return value
    return _copy(value)


def _copy(value: Any) -> Any:
    """A copy of an array, in the order of C, that is as writable; anything else as it is."""
    if type(value) is not np.ndarray:
        return value
    made = value.astype(value.dtype.newbyteorder("="), order="C")
    made.flags.writeable = value.flags.writeable
    return made


def _scalars(args: tuple[Any, ...]) -> frozenset[int]:
    """The arguments that stand for scalars of NumPy's; see numpy_is_scalar in csrc/capture/jit."""
    return frozenset(k for k in _read_only(args) if args[k].ndim == 0)


def _read_only(args: tuple[Any, ...]) -> frozenset[int]:
    arrays = [(k, a) for k, a in enumerate(args) if type(a) is np.ndarray]
    return frozenset(k for k, a in arrays if not a.flags.writeable)


def _symbols(args: tuple[Any, ...]) -> list[torch.SymInt]:
    """The sizes and strides that are symbols of their own, each once."""
    found: dict[str, torch.SymInt] = {}
    for value in args:
        numbers = [*value.shape, *value.stride()] if isinstance(value, Tensor) else []
        for n in numbers:
            if isinstance(n, torch.SymInt) and n.node.expr.is_Symbol:
                found.setdefault(str(n.node.expr), n)
    return list(found.values())


def _kind(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the tensors of the arguments do not say of them."""
    return _read_only(args), tuple((k, a.dtype.str) for k, a in enumerate(args) if unsigned.has(a))


def _share_memory(a: Any, b: Any, **limits: int) -> bool:
    return type(a) is type(b) is np.ndarray and np.may_share_memory(a, b, **limits)


def _to_tensor(place: int, value: Any) -> Any:
    """An array as a tensor over its memory, or of a copy where torch cannot share it.

    A generator is a number: see draws.py.
    """
    if draws.is_generator(value):
        return torch.tensor(place)
    if type(value) is not np.ndarray:
        return value
    value = _ordinary(value)
    value = value if value.flags.writeable else value.copy()
    if min(value.strides, default=0) < 0:  # of an axis of one element: never used, but refused by torch
        value = as_strided(value, strides=[abs(s) for s in value.strides])
    return torch.from_numpy(unsigned.signed_array(value))


def _unsigned_as_given(tensor: Any, value: Any) -> Any:
    """A tensor that _to_tensor made, of the dtype of its array."""
    return tensor.view(getattr(torch, value.dtype.name)) if unsigned.has(value) else tensor


def _like(array: Any) -> Tensor:
    """A tensor without memory of the array's dtype, sizes and strides."""
    if draws.is_generator(array):
        return torch.empty((), dtype=torch.int64, device="meta")
    dtype = torch.from_numpy(array.ravel()[:0].copy()).dtype
    strides = [s // array.itemsize if n > 1 else 1 for n, s in zip(array.shape, array.strides, strict=True)]
    return torch.empty_strided(array.shape, strides, dtype=dtype, device="meta")


# -- the function, of tensors --------------------------------------------------------------------------


def _shared(leaf: Array, leaves: list[Any]) -> bool:
    arrays = [other for other in leaves if is_array(other) and other is not leaf]
    return leaf.root.argument is not None or any(other.root is leaf.root for other in arrays)


def _result(leaf: Any, leaves: list[Any]) -> Any:
    """What trace.capture takes for a result."""
    if isinstance(leaf, (np.ndarray, np.generic)) and not is_array(leaf):
        leaf = constant(leaf)
    if isinstance(leaf, Unknown):
        leaf.read()
    if not is_array(leaf):
        return leaf
    if leaf.chosen is not None and leaf.chosen.cut is not None:
        refuse(
            "it returns a slice that ends at a value, so its size is not known",
            "return the whole array and the value",
            trace.Never,
        )
    if leaf.lazy and _shared(leaf, leaves):
        refuse(
            "it returns a reversed, broadcast or chosen view of an argument or of another result",
            "return a copy of it, x[::-1].copy()",
            trace.Never,
        )
    if leaf.weak:
        return number(leaf)
    if not leaf.scalar:
        return leaf.tensor
    return trace.Scalar(leaf.tensor if leaf.root.argument is None else leaf.tensor.clone())


def _argument(value: Any, root: Root, scalar: bool) -> Any:
    if isinstance(value, torch.SymFloat):
        return Array(lift(value).tensor, scalar=True, weak=True, symbol=value)
    if not isinstance(value, Tensor):
        return value
    if value.ndim > 1 and is_symbol(value.shape[-1]) and value.shape[-1].node.hint in FEW:
        int(value.shape[-1])  # a condition of the variant
    return Array(value, root=root, scalar=scalar)


@contextlib.contextmanager
def _without_cache() -> Iterator[None]:
    """The fake tensors of a capture are made anew for each operator.

    An entry of torch's cache makes two more of them, whose symbols cost as much. That pays where whole layers
    repeat, as in models, which functions of arrays do not.
    """
    mode = active_fake_mode()
    before = getattr(mode, "cache_enabled", False)
    if before:
        mode.cache_enabled = False
    try:
        yield
    finally:
        if before:
            mode.cache_enabled = True


def of_tensors(
    call: Callable[..., Any],
    parameters: tuple[str, ...],
    generators: set[int],
    scalars: frozenset[int],
    lines: list[str],
    dtypes: list[np.dtype | None],
) -> Callable[..., Any]:
    """call with arrays in place of the tensors that it is given, its results as trace.capture takes them.

    generators: the parameters that are some; then the last token of their draws is behind the result;
    scalars: those that stand for scalars of NumPy's; lines: receives of each parameter the line that writes
    to it first; dtypes: of each leaf of the result the dtype, if it is unsigned, else None.
    """

    def run(*args: Any) -> Any:
        roots = [Root(name) for name in parameters]
        given = [_argument(value, roots[k], k in scalars) for k, value in enumerate(args)]
        order = draws.Order(args[min(generators)]) if generators else None
        for k in generators:
            given[k] = draws.Generator(k, order)
        with bodies.sizes_of(_symbols(args)), unsigned.Meaning(), _without_cache():
            leaves, tree = pytree.tree_flatten(call(*given))
            results = [_result(leaf, leaves) for leaf in leaves]
            result = pytree.tree_unflatten(results, tree)
        dtypes[:] = [unsigned.numpys(getattr(leaf, "tensor", leaf)) for leaf in results]
        lines[:] = [root.line for root in roots]
        return (result, order.token) if order else result

    return run


# -- variants ------------------------------------------------------------------------------------------


def _arrays_of(
    of: list[tuple[str, Any]], whole: Any, generators: set[int], dtypes: list[np.dtype | None]
) -> Callable[[list[Any]], Any]:
    """The shape of a result whose tensors become arrays and scalars; of, whole: trace's; see of_tensors."""
    forms = [
        ((() if dtype is None else (dtype,)), kind == "scalar")
        for (kind, _), dtype in itertools.zip_longest(of, dtypes)
    ]

    def array(leaf: Any, dtype: tuple[np.dtype, ...], scalar: bool) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        found = leaf.numpy().view(*dtype) if dtype else leaf.numpy()
        return found[()] if scalar else found

    def shape(leaves: list[Any]) -> Any:
        arrays = [array(leaf, *form) for leaf, form in zip(leaves, forms, strict=True)]
        if whole is None:
            return arrays[0]
        shaped = whole(arrays)
        return shaped[0] if generators else shaped

    return shape


class _Made(NamedTuple):
    """What Jit.add takes of a variant, and the dtypes of its results: see of_tensors."""

    spec: dict[str, Any]
    dtypes: list[np.dtype | None]


class _Inner(NamedTuple):
    """What takes tensors in place of arrays, and the arguments that some variant of it writes to."""

    jit: Any
    written: set[int]


class Arrays:
    """Makes the variants of one function for arrays; compiler: what makes those for tensors."""

    def __init__(self, compiler: Any) -> None:
        self.compiler = compiler
        # By the arguments that are read-only, and those of unsigned dtypes: see unsigned.py.
        self.inner: dict[tuple[Any, ...], _Inner] = {}
        self.written: set[int] = set()  # the arguments that some variant writes to
        # args: of the call that is under way, as they were given; made: those of a variant that calls
        # operators, and the variant: the call goes on with tensors, and needs the same
        self.now = threading.local()

    def variant(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """What Jit.add takes, for calls with such arguments."""
        if not all(readable(a) and not unsigned.has(a) for a in args if type(a) is np.ndarray):
            return {"through": self.by_copies}
        takes_arrays = any(type(a) is np.ndarray for a in args)  # else its results are no arrays to Jit
        if takes_arrays and not any(map(draws.is_generator, args)):
            made = self.compiled(tuple(_like(a) if is_numpy(a) else a for a in args), args, set())
            if not made.spec["callable"].calls and not any(made.dtypes):
                return made.spec
            self.now.made = args, made
        return {"through": self.by_tensors}

    def compiled(self, like: tuple[Any, ...], args: tuple[Any, ...], generators: set[int]) -> _Made:
        def numpy_itself() -> None:
            self.compiler.call(*(copy.deepcopy(a) if is_numpy(a) else a for a in args))

        # Anew each time: the copy has what the function's names stand for now.
        call = self.compiler.by_position(scope.in_numpys_meaning(self.compiler.fn))
        with torch.autocast("cpu", enabled=False):
            lines: list[str] = []
            dtypes: list[np.dtype | None] = []
            run = of_tensors(call, self.compiler.names, generators, _scalars(args), lines, dtypes)
            spec = self.compiler.compiled(run, like, numpy_itself)
        written = [k for k, _ in spec["writes"]]
        self.written.update(written)
        writes_to = self.compiler.captures.writes_to
        spec["writes"] = [(k, functools.partial(writes_to, k, lines[k])) for k in written]
        return _Made(spec, dtypes)

    def by_copies(self, *args: Any) -> Any:
        """A call with copies of what cannot be read where it is: what is written to them is written back."""
        call = self.by_tensors if any(map(unsigned.has, args)) else self.compiler.jit
        if all(readable(a) for a in args if type(a) is np.ndarray):
            return call(*args)
        shared = any(_share_memory(args[k], other) for k in range(len(args)) for other in args[:k])
        given = [_copy(a) if shared else _ordinary(a) for a in args]
        result = call(*given)
        back = [k for k in self.written if given[k] is not args[k] and args[k].flags.writeable]
        for k in back:
            self.check_shared(k, args, range(len(args)))
        for k in back:
            args[k][...] = given[k]
        return result

    def check_shared(self, written: int, args: tuple[Any, ...], others: Iterable[int]) -> None:
        """Refuses a call whose argument `written`, which is written to, shares memory with one of others."""
        for k in others:
            if k != written and _share_memory(args[written], args[k], max_work=MAX_WORK):
                name = self.compiler.names[k]
                raise CaptureError(
                    f"{self.compiler.captures.writes_to(written)}, which shares memory with {name}: "
                    f"give it a copy of {self.compiler.names[written]} or of {name}"
                )

    # Graphs with calls of operators take tensors: they have a Jit of their own, whose results are arrays.
    # torch has no tensors that are read-only, so those that are given here have copies of such arrays.

    def by_tensors(self, *args: Any) -> Any:
        fixed = _read_only(args)
        key = _kind(args)
        if key not in self.inner:
            self.inner[key] = _Inner(self.compiler.new_jit(functools.partial(_add, self)), set())
        inner, self.now.args = self.inner[key], args
        self.check_copies(inner, fixed)
        try:
            with torch.autocast("cpu", enabled=False), draws.given(args):
                return inner.jit(*(_to_tensor(k, value) for k, value in enumerate(args)))
        finally:
            vars(self.now).pop("made", None)

    def made_now(self) -> _Made | None:
        """What `variant` has just made for the arguments of this call."""
        args, made = vars(self.now).pop("made", ((), None))
        same = len(args) == len(self.now.args) and all(map(operator.is_, args, self.now.args))
        return made if same else None

    def check_copies(self, inner: _Inner, fixed: frozenset[int]) -> None:
        for k in sorted(inner.written if fixed else ()):
            self.check_shared(k, self.now.args, fixed)

    def add(self, generation: int, *args: Any) -> None:
        with trace.capturing():
            fixed = _read_only(self.now.args)
            inner = self.inner[_kind(self.now.args)]
            if inner.jit.generation != generation:
                return  # another thread has compiled meanwhile
            generators = set(draws.given_now())
            like = tuple(map(_unsigned_as_given, args, self.now.args))
            spec, dtypes = self.made_now() or self.compiled(like, self.now.args, generators)
            written = {k for k, _ in spec["writes"]}
            if written & fixed:
                raise ValueError("assignment destination is read-only")
            inner.written.update(written)
            self.check_copies(inner, fixed)
            spec["shape"] = _arrays_of(spec["leaves"], spec["shape"], generators, dtypes)
            spec["leaves"] = [
                ("result" if kind == "scalar" else kind, value) for kind, value in spec["leaves"]
            ]
            inner.jit.add(args, spec)
            self.compiler.often.added(args, spec["inputs"])


@torch._disable_dynamo
def _add(arrays: Arrays, generation: int, *args: Any) -> None:
    arrays.add(generation, *args)
