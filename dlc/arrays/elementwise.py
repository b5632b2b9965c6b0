"""NumPy's functions of elements that are no ufuncs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from . import unsigned
from .index import into, write
from .names import computes
from .ufuncs import apply
from .value import (
    Array,
    as_tensor,
    cast,
    is_array,
    is_python,
    is_symbol,
    lift,
    refuse,
    together,
    torch_dtype,
)


def _into(result: Array, out: Any, casting: str = "same_kind", broadcast: bool = False) -> Array:
    """The result, or (see index.into) out= with it."""
    return result if out is None else into(out, result, casting, broadcast)


@computes(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Array:
    if x is None or y is None:
        refuse(
            "np.where of a condition alone has a size that depends on the values",
            "choose values: np.where(condition, x, y)",
        )
    chosen = lift(condition).tensor
    dtype = together(x, y)
    return Array(
        torch.where(
            chosen != 0 if chosen.dtype != torch.bool else chosen, as_tensor(x, dtype), as_tensor(y, dtype)
        )
    )


def _copied_dtype(src: Any, to: np.dtype) -> np.dtype:
    """That of what is copied; a number of Python's has that of `to` where this is of its kind."""
    if not is_python(src):
        return lift(src).dtype
    own, ranks = together(src), {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
    return to if ranks[to.kind] >= ranks[own.kind] else own


@computes(np.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    if not is_array(dst):
        refuse("it writes to an array that NumPy made", "make it in the function")
    if not np.can_cast(_copied_dtype(src, dst.dtype), dst.dtype, casting):
        raise TypeError(f"Cannot cast array data to {dst.dtype!r} according to the rule {casting!r}")
    value = as_tensor(src, dst.dtype)
    write(dst, value if where is True else torch.where(lift(where).tensor, value, dst.tensor))


@computes(np.clip)
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None
) -> Any:
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    found = lift(a)
    if low is None and high is None:
        return _into(apply(np.positive, (found,), {}), out, broadcast=True)
    dtype = together(found, *(end for end in (low, high) if end is not None))
    if dtype.kind == "c":
        refuse("np.clip of complex numbers has no compiled form", "clip their parts")
    tensor, to = unsigned.in_order(as_tensor(found, dtype)), torch_dtype(dtype)
    if low is not None:
        tensor = torch.maximum(tensor, unsigned.in_order(as_tensor(low, dtype)))
    if high is not None:
        tensor = torch.minimum(tensor, unsigned.in_order(as_tensor(high, dtype)))
    tensor = unsigned.from_order(tensor, to).to(to)
    return _into(Array(tensor, scalar=tensor.dim() == 0), out, broadcast=True)


@computes(np.round, np.around)
def round_(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    found = lift(a)
    if found.dtype.kind in "iub":
        if decimals < 0 or (decimals and found.dtype == bool):
            refuse("np.round of integers to tens, or of bools, has no compiled form", "round floats")
        tensor = found.tensor.to(torch.float16) if found.dtype == bool else found.tensor.clone()
        return _into(Array(tensor, scalar=found.ndim == 0), out)
    if found.tensor.is_complex():
        refuse("np.round of complex numbers", "round their parts")
    tensor, power = found.tensor, cast(10.0 ** abs(decimals), found.dtype)
    if decimals > 0:
        tensor = torch.round(tensor * power) / power
    elif decimals < 0:
        tensor = torch.round(tensor / power) * power
    else:
        tensor = torch.round(tensor)
    return _into(Array(tensor, scalar=found.ndim == 0), out)


@computes(np.fix)
def fix(x: Any, out: Any = None) -> Any:
    return apply(np.trunc, (x,), {"out": out} if out is not None else {})


@computes(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Array:
    x, y = (v if is_array(v) else lift(v) for v in (a, b))
    if y.dtype.kind != "f":
        y = Array(y.tensor.to(torch_dtype(np.result_type(y.dtype, 1.0))))
    near = np.less_equal(abs(x - y), atol + rtol * abs(y)) & np.isfinite(y) | (x == y)
    result = near | (np.isnan(x) & np.isnan(y)) if equal_nan else near
    return Array(result.tensor, scalar=result.ndim == 0)


@computes(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    found = lift(x)
    if not copy or found.tensor.is_complex():
        refuse(
            "np.nan_to_num(copy=False), or of complex numbers, has no compiled form",
            "write x = np.nan_to_num(x)",
        )
    if not found.tensor.is_floating_point():
        return Array(found.tensor.clone(), scalar=found.ndim == 0)
    limits = np.finfo(found.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    tensor = found.tensor
    for wrong, value in (
        (torch.isnan(tensor), nan),
        (tensor == torch.inf, high),
        (tensor == -torch.inf, low),
    ):
        tensor = torch.where(wrong, as_tensor(value, found.dtype), tensor)
    return Array(tensor, scalar=found.ndim == 0)


@computes(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Array:
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError("list of cases must be same length as list of conditions")
    if any(lift(c).dtype != bool for c in condlist):
        raise TypeError("invalid entry in condlist: should be boolean ndarray")
    dtype = together(*choicelist, default)
    result = as_tensor(default, dtype)
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        result = torch.where(lift(condition).tensor, as_tensor(choice, dtype), result)
    return Array(result)


@computes(np.sinc)
def sinc(x: Any) -> Any:
    found = lift(x)
    if found.dtype.kind != "f":
        refuse("np.sinc of other numbers than floats", "write np.sinc(x.astype(float))")
    y = np.pi * np.where(found == 0, cast(1.0e-20, found.dtype), found)
    return np.sin(y) / y


@computes(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    found = lift(z)
    result = np.arctan2(found.imag, found.real) if found.dtype.kind == "c" else np.arctan2(0, found)
    return result * (180 / np.pi) if deg else result


@computes(np.isreal)
def isreal(x: Any) -> Any:
    return lift(x).imag == 0


@computes(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    return lift(x).dtype.kind == "c"


@computes(np.isrealobj)
def isrealobj(x: Any) -> bool:
    return not iscomplexobj(x)


@computes(np.isscalar)
def isscalar(element: Any) -> bool:
    return element.scalar if is_array(element) else is_symbol(element)


@computes(np.iterable)
def iterable(y: Any) -> bool:
    if is_array(y) or isinstance(y, torch.Tensor):
        return y.ndim > 0
    return not is_symbol(y)


@computes(np.shape)
def shape(a: Any) -> tuple[Any, ...]:
    return lift(a).shape


@computes(np.ndim)
def ndim(a: Any) -> int:
    return lift(a).ndim


@computes(np.size)
def size(a: Any, axis: Any = None) -> Any:
    found = lift(a)
    return found.size if axis is None else found.shape[axis]


@computes(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    return together(*(np.empty(0, a) if isinstance(a, (type, np.dtype)) else a for a in arrays_and_dtypes))


@computes(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    weights, at = lift(p), x if is_array(x) else lift(x)
    result: Any = np.zeros_like(at)
    for weight in weights:
        result = result * at + weight
    return result


@computes(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    found = lift(x)
    one = np.isscalar(condlist) or (not isinstance(condlist[0], (list, np.ndarray)) and found.ndim != 0)
    places = [lift(c) for c in ([condlist] if one else condlist)]
    values = list(funclist)
    if len(values) == len(places) + 1:  # the last is for the rest
        rest = ~functools.reduce(np.logical_or, [np.not_equal(p, False) for p in places])
        places = [*places, rest]
    elif len(values) != len(places):
        raise ValueError(
            f"with {len(places)} condition(s), either {len(places)} or {len(places) + 1} functions "
            "are expected"
        )
    result = Array(torch.zeros_like(found.tensor))
    for place, value in zip(places, values, strict=True):
        mask = np.not_equal(place, False)
        result[mask] = value(found[mask], *args, **kw) if callable(value) else value
    return result
