"""Variants of a dlc.jit function for calls with NumPy arrays."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from numpy.lib.stride_tricks import as_strided
from torch import Tensor

from .. import trace
from . import (  # noqa: F401  (they register what they compute)
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
    windows,
)
from .value import Array, Root, Unknown, constant, is_array, lift, number, refuse


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
    return value.astype(value.dtype.newbyteorder("="), order="C")


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
    return torch.from_numpy(value)


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
    if leaf.lazy and _shared(leaf, leaves):
        refuse(
            "it returns a reversed, broadcast or chosen view of an argument or of another result",
            "return a copy of it, x[::-1].copy()",
            trace.Never,
        )
    if leaf.weak:
        return number(leaf)
    return trace.Scalar(leaf.tensor) if leaf.scalar else leaf.tensor


def _argument(value: Any, name: str) -> Any:
    if isinstance(value, torch.SymFloat):
        return Array(lift(value).tensor, scalar=True, weak=True, symbol=value)
    return Array(value, root=Root(name)) if isinstance(value, Tensor) else value


def of_tensors(
    call: Callable[..., Any], parameters: tuple[str, ...], generators: set[int]
) -> Callable[..., Any]:
    """call with arrays in place of the tensors that it is given, its results as trace.capture takes them.

    generators: the parameters that are some; then the last token of their draws is behind the result.
    """

    def run(*args: Any) -> Any:
        given = [_argument(value, name) for name, value in zip(parameters, args, strict=True)]
        order = draws.Order(args[min(generators)]) if generators else None
        for k in generators:
            given[k] = draws.Generator(k, order)
        leaves, tree = pytree.tree_flatten(call(*given))
        result = pytree.tree_unflatten([_result(leaf, leaves) for leaf in leaves], tree)
        return (result, order.token) if order else result

    return run


# -- variants ------------------------------------------------------------------------------------------


def _arrays_of(captured: trace.Captured, generators: set[int]) -> Callable[[list[Any]], Any]:
    """The shape of a result whose tensors become arrays and scalars; see of_tensors."""
    scalars = [kind == "scalar" for kind, _ in captured.leaves]

    def shape(leaves: list[Any]) -> Any:
        arrays = [
            (leaf.numpy()[()] if scalar else leaf.numpy()) if isinstance(leaf, Tensor) else leaf
            for leaf, scalar in zip(leaves, scalars, strict=True)
        ]
        if captured.shape is None:
            return arrays[0]
        shaped = captured.shape(arrays)
        return shaped[0] if generators else shaped

    return shape


class Arrays:
    """Makes the variants of one function for arrays; compiler: what makes those for tensors."""

    def __init__(self, compiler: Any) -> None:
        self.compiler = compiler
        self.inner: Any = None

    def variant(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """What Jit.add takes, for calls with such arguments."""
        if not all(readable(a) for a in args if type(a) is np.ndarray):
            return {"through": lambda *args: self.compiler.jit(*map(_ordinary, args))}
        if not any(map(draws.is_generator, args)):
            spec = self.compiled(tuple(_like(a) if is_numpy(a) else a for a in args), args, set())
            if not spec["callable"].calls:
                return spec
        if self.inner is None:
            self.inner = self.compiler.new_jit(functools.partial(_add, self))
        return {"through": self.by_tensors}

    def compiled(self, like: tuple[Any, ...], args: tuple[Any, ...], generators: set[int]) -> dict[str, Any]:
        def numpy_itself() -> None:
            self.compiler.call(*(copy.deepcopy(a) if is_numpy(a) else a for a in args))

        # Anew each time: the copy has what the function's names stand for now.
        call = self.compiler.by_position(scope.in_numpys_meaning(self.compiler.fn))
        with torch.autocast("cpu", enabled=False):
            return self.compiler.compiled(
                of_tensors(call, self.compiler.names, generators), like, numpy_itself
            )

    # Graphs with calls of operators take tensors: they have a Jit of their own, whose results are arrays.

    def by_tensors(self, *args: Any) -> Any:
        with torch.autocast("cpu", enabled=False), draws.given(args):
            return self.inner(*(_to_tensor(k, value) for k, value in enumerate(args)))

    def add(self, generation: int, *args: Any) -> None:
        with trace.capturing():
            if self.inner.generation != generation:
                return  # another thread has compiled meanwhile
            given = draws.given_now()
            arrays = tuple(
                given.get(k, a.numpy() if isinstance(a, Tensor) else a) for k, a in enumerate(args)
            )
            spec = self.compiled(args, arrays, set(given))
            captured = trace.Captured(None, [], [], [], spec["leaves"], spec["shape"])
            spec["shape"] = _arrays_of(captured, set(given))
            spec["leaves"] = [
                ("result" if kind == "scalar" else kind, value) for kind, value in spec["leaves"]
            ]
            self.inner.add(args, spec)
            self.compiler.often.added(args, spec["inputs"])


@torch._disable_dynamo
def _add(arrays: Arrays, generation: int, *args: Any) -> None:
    arrays.add(generation, *args)
