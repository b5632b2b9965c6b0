"""NumPy's reductions and sums along an axis. What they give (a dtype, a scalar or an array, an error of their
arguments) is what NumPy says when it is called with an array of one element in each axis."""

from __future__ import annotations

import functools
import math
import operator
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import unsigned
from .index import into
from .names import computes
from .value import FEW, Array, is_array, lift, refuse, torch_dtype


def _probe(function: Any, array: Array, **options: Any) -> Any:
    """What NumPy makes of an array of the same dtype, axes and emptiness."""
    shape = tuple(0 if isinstance(n, int) and n == 0 else 1 for n in array.shape)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(np.ones(shape, array.dtype), **options)


def _axes(array: Array, axis: Any) -> list[int]:
    if axis is None:
        return list(range(array.ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    if is_array(axis) or any(map(is_array, axes)):
        refuse("axis= is a value", "give it as an int")
    return [operator.index(ax) % max(array.ndim, 1) for ax in axes]


def _give(tensor: Tensor, like: Any, out: Any, casting: str | None = None) -> Array:
    """The result, of the dtype that NumPy gives it."""
    result = tensor.to(torch_dtype(like.dtype))
    array = Array(result, scalar=isinstance(like, np.generic))
    return array if out is None else into(out, array, casting)


def in_out(a: Any, dtype: Any, out: Any) -> Any:
    """The dtype of a sum with out=: NumPy computes it in what holds both, unless it is told another."""
    given = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if dtype is not None or not is_array(given):
        return dtype
    return np.result_type(lift(a).dtype, given.dtype)


def _wider(a: Any, dtype: Any, out: Any) -> Any:
    """The dtype of a mean: that of out= where it holds the elements without loss."""
    found = in_out(a, dtype, out)
    return found if found is not None and np.dtype(found).kind in "fc" else dtype


class _Call:
    """One call of a reduction: the tensor, its axes, and what NumPy gives for it."""

    def __init__(self, function: Any, a: Any, axis: Any, keepdims: Any, out: Any, **options: Any) -> None:
        self.array = lift(a)
        for name in ("initial", "where", "mean", "correction"):
            if name in options:
                refuse(f"np.{function.__name__}({name}=..) has no compiled form")
        axis = tuple(axis) if isinstance(axis, list) else axis
        self.axes = _axes(self.array, axis)
        self.like = _probe(function, self.array, axis=axis, keepdims=bool(keepdims), **options)
        self.keepdims, self.out = bool(keepdims), out
        self.casting = "unsafe" if function in (np.sum, np.prod) else None  # to out=

    def give(self, tensor: Tensor) -> Array:
        """tensor: with the reduced axes, of one element."""
        if not self.keepdims:
            for ax in sorted(self.axes, reverse=True):
                tensor = tensor.squeeze(ax)
        return _give(tensor, self.like, self.out, self.casting)

    def reduced(self, function: Any, tensor: Tensor | None = None, **options: Any) -> Tensor:
        tensor = self.array.tensor if tensor is None else tensor
        if not self.axes:
            return tensor if self.array.ndim else function(tensor.reshape(1), [0], keepdim=False, **options)
        return function(tensor, self.axes, keepdim=True, **options)


def _squeezed(call: _Call, tensor: Tensor) -> Array:
    return call.give(tensor) if call.axes else _give(tensor, call.like, call.out, call.casting)


def _without_rest(a: Any) -> Any:
    """A slice of a vector whose ends are values as the whole vector, with zeros elsewhere."""
    found = a.chosen if is_array(a) and not a.scalar else None
    if found is None or found.cut is None or found.whole.dim() != 1:
        return a
    return Array(torch.where(found.mask, found.whole, torch.zeros((), dtype=found.whole.dtype)))


@computes(np.sum)
def sum_(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **k: Any
) -> Array:
    a = _without_rest(a)
    call = _Call(np.sum, a, axis, keepdims, out, dtype=in_out(a, dtype, out), **k)
    to = torch_dtype(call.like.dtype)
    terms = unsigned.terms(call.array.tensor, to)
    if _of_parts(call, terms, to):
        found = functools.reduce(torch.add, terms.unbind(-1))
        return _squeezed(call, found.unsqueeze(-1))
    return _squeezed(call, call.reduced(torch.sum, terms, dtype=unsigned.added_in(to)))


def _of_parts(call: _Call, terms: Tensor, to: torch.dtype) -> bool:
    """Is it a sum over the parts of points, whose number is known?

    Added one by one, in NumPy's order, it is no reduction, so that a reduction over points is in its kernel.
    """
    last = terms.dim() - 1
    few = last > 0 and call.axes == [last] and terms.dtype == to and to in (torch.float32, torch.float64)
    return few and isinstance(terms.shape[last], int) and terms.shape[last] in FEW


@computes(np.prod)
def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **k: Any
) -> Array:
    call = _Call(np.prod, a, axis, keepdims, out, dtype=in_out(a, dtype, out), **k)
    to = torch_dtype(call.like.dtype)
    tensor = unsigned.terms(call.array.tensor, to).to(unsigned.added_in(to))
    for ax in call.axes:
        tensor = torch.prod(tensor, ax, keepdim=True)
    return _squeezed(call, tensor)


@computes(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **k: Any
) -> Array:
    call = _Call(np.mean, a, axis, keepdims, out, dtype=_wider(a, dtype, out), **k)
    to = torch_dtype(call.like.dtype)
    return _squeezed(call, call.reduced(torch.mean, unsigned.terms(call.array.tensor, to), dtype=to))


def _spread(function: Any, ours: Any) -> Any:
    @computes(function)
    def spread(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = False,
        **k: Any,
    ) -> Array:
        call = _Call(function, a, axis, keepdims, out, dtype=dtype, ddof=ddof, **k)
        tensor = call.array.tensor
        if not tensor.is_complex():
            tensor = tensor.to(torch_dtype(call.like.dtype))
        return _squeezed(call, call.reduced(ours, tensor, correction=ddof))

    return spread


var, std = _spread(np.var, torch.var), _spread(np.std, torch.std)


def _extreme(
    function: Any, ours: Any, a: Any, axis: Any, out: Any, keepdims: Any, k: dict[str, Any]
) -> Array:
    call = _Call(function, a, axis, keepdims, out, **k)
    if call.array.tensor.is_complex():
        refuse(f"np.{function.__name__} of complex numbers", "reduce their parts")
    tensor = call.array.tensor
    found = call.reduced(ours, unsigned.in_order(tensor))
    return _squeezed(call, unsigned.from_order(found, tensor.dtype))


@computes(np.max, np.amax)
def max_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **k: Any) -> Array:
    return _extreme(np.max, torch.amax, a, axis, out, keepdims, k)


@computes(np.min, np.amin)
def min_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **k: Any) -> Array:
    return _extreme(np.min, torch.amin, a, axis, out, keepdims, k)


@computes(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Array:
    call = _Call(np.ptp, a, axis, keepdims, out)
    if call.array.tensor.is_complex():
        refuse("np.ptp of complex numbers", "reduce their parts")
    tensor = unsigned.in_order(call.array.tensor)
    return _squeezed(call, call.reduced(torch.amax, tensor) - call.reduced(torch.amin, tensor))


def _truth(function: Any, ours: Any, a: Any, axis: Any, out: Any, keepdims: Any, k: dict[str, Any]) -> Array:
    call = _Call(function, a, axis, keepdims, out, **k)
    return _squeezed(call, call.reduced(ours, call.array.tensor != 0))


@computes(np.any)
def any_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **k: Any) -> Array:
    return _truth(np.any, torch.any, a, axis, out, keepdims, k)


@computes(np.all)
def all_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **k: Any) -> Array:
    return _truth(np.all, torch.all, a, axis, out, keepdims, k)


@computes(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Array:
    call = _Call(np.count_nonzero, a, axis, keepdims, None)
    if type(call.like) is int:
        refuse("np.count_nonzero gives an int of Python's here", "write (x != 0).sum()")
    return _squeezed(call, call.reduced(torch.sum, (call.array.tensor != 0).to(torch.int64)))


def _place(function: Any, ours: Any, a: Any, axis: Any, out: Any, keepdims: Any) -> Array:
    array = lift(a)
    like = _probe(function, array, axis=axis, keepdims=bool(keepdims))
    tensor = unsigned.in_order(array.tensor)
    if tensor.is_complex():
        refuse(f"np.{function.__name__} of complex numbers", "compare their parts")
    if tensor.dtype == torch.bool:
        tensor = tensor.to(torch.uint8)
    if axis is None:
        found = ours(tensor.reshape(-1), 0)
        return _give(found.reshape((1,) * array.ndim) if keepdims else found, like, out, "equiv")
    axis = _axes(array, axis)[0]
    found = ours(tensor, axis, keepdim=bool(keepdims)) if array.ndim else ours(tensor.reshape(1), 0)
    return _give(found, like, out, "equiv")


@computes(np.argmax)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    return _place(np.argmax, torch.argmax, a, axis, out, keepdims)


@computes(np.argmin)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    return _place(np.argmin, torch.argmin, a, axis, out, keepdims)


def _running(function: Any, ours: Any, a: Any, axis: Any, dtype: Any, out: Any) -> Array:
    array = lift(a)
    like = _probe(function, array, axis=axis, dtype=in_out(a, dtype, out))
    to = torch_dtype(like.dtype)
    tensor = unsigned.terms(array.tensor, to).to(unsigned.added_in(to))
    tensor = tensor.reshape(-1) if axis is None or not array.ndim else tensor
    return _give(ours(tensor, 0 if axis is None else _axes(array, axis)[0]), like, out, "unsafe")


@computes(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
    return _running(np.cumsum, torch.cumsum, a, axis, dtype, out)


@computes(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
    return _running(np.cumprod, torch.cumprod, a, axis, dtype, out)


# -- without NaN ---------------------------------------------------------------------------------------


def _without_nan(a: Any, other: float) -> tuple[Array, Array]:
    """The array with NaN replaced, and where there was none."""
    array = lift(a)
    if not (array.tensor.is_floating_point()):
        return array, Array(torch.ones_like(array.tensor, dtype=torch.bool))
    good = ~torch.isnan(array.tensor)
    return Array(torch.where(good, array.tensor, other)), Array(good)


@computes(np.nansum)
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Array:
    return sum_(_without_nan(a, 0.0)[0], axis, dtype, out, keepdims)


@computes(np.nanmean)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Array:
    call = _Call(np.nanmean, a, axis, keepdims, out, dtype=dtype)
    clean, good = _without_nan(a, 0.0)
    total = call.reduced(torch.sum, clean.tensor, dtype=torch_dtype(call.like.dtype))
    count = call.reduced(torch.sum, good.tensor.to(torch.int64))
    return _squeezed(call, total / count.to(total.dtype))


def _nan_spread(function: Any) -> None:
    @computes(function)
    def spread(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False
    ) -> Array:
        call = _Call(function, a, axis, keepdims, out, dtype=dtype, ddof=ddof)
        if call.array.tensor.is_complex():
            refuse(f"np.{function.__name__} of complex numbers")
        clean, good = _without_nan(a, 0.0)
        tensor = clean.tensor.to(torch_dtype(call.like.dtype))
        count = call.reduced(torch.sum, good.tensor.to(torch.int64)).to(tensor.dtype)
        off = torch.where(good.tensor, tensor - call.reduced(torch.sum, tensor) / count, 0.0)
        free = count - ddof
        found = torch.where(free > 0, call.reduced(torch.sum, off * off) / free, math.nan)
        return _squeezed(call, torch.sqrt(found) if function is np.nanstd else found)


_nan_spread(np.nanvar)
_nan_spread(np.nanstd)


def _nan_extreme(function: Any, ours: Any, worst: float, a: Any, axis: Any, out: Any, keepdims: Any) -> Array:
    call = _Call(function, a, axis, keepdims, out)
    if not call.array.tensor.is_floating_point():
        return _extreme(np.max if worst < 0 else np.min, ours, a, axis, out, keepdims, {})
    clean, good = _without_nan(a, worst)
    found = call.reduced(ours, clean.tensor)
    return _squeezed(call, torch.where(call.reduced(torch.any, good.tensor), found, math.nan))


@computes(np.nanmax)
def nanmax(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Array:
    return _nan_extreme(np.nanmax, torch.amax, -math.inf, a, axis, out, keepdims)


@computes(np.nanmin)
def nanmin(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Array:
    return _nan_extreme(np.nanmin, torch.amin, math.inf, a, axis, out, keepdims)


@computes(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Array:
    if weights is not None:
        refuse("np.average with weights raises where they sum to zero")  # so it is called
    found = mean(a, axis, keepdims=keepdims)
    return (found, np.full_like(found, lift(a).size / found.size)) if returned else found
