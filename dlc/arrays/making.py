"""NumPy's functions that make arrays, which are traced even of known values: they may be written to."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .names import computes, makes
from .shapes import check_order, order_is_c, sizes
from .value import (
    Array,
    as_tensor,
    constant,
    is_array,
    is_known,
    is_symbol,
    kind,
    lift,
    refuse,
    together,
    torch_dtype,
)


def dtype_of(dtype: Any, default: Any = float) -> np.dtype:
    return np.dtype(default if dtype is None else dtype)


def _full(shape: Any, value: Any, dtype: np.dtype) -> Array:
    known = isinstance(value, np.generic) and not is_array(value)
    number = value.item() if known else value
    if is_array(number) or isinstance(number, (np.ndarray, list, tuple)):
        return Array(as_tensor(number, dtype).expand(sizes(shape)).clone())
    if not is_symbol(number):
        number = dtype.type(number).item()
    return Array(torch.full(sizes(shape), number, dtype=torch_dtype(dtype)))


@makes(np.zeros)
def zeros(shape: Any, dtype: Any = float, order: Any = "C") -> Array:
    order_is_c(order)
    return _full(shape, 0, dtype_of(dtype))


@makes(np.ones)
def ones(shape: Any, dtype: Any = None, order: Any = "C") -> Array:
    order_is_c(order)
    return _full(shape, 1, dtype_of(dtype))


@makes(np.empty)
def empty(shape: Any, dtype: Any = float, order: Any = "C") -> Array:
    order_is_c(order)
    return _full(shape, 0, dtype_of(dtype))


@makes(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C") -> Array:
    order_is_c(order)
    return _full(shape, fill_value, dtype_of(dtype, kind(fill_value)))


def _like(a: Any, value: Any, dtype: Any, shape: Any) -> Array:
    array = lift(a)
    to = array.shape if shape is None else shape
    return _full(to, value, dtype_of(dtype, array.dtype))


@makes(np.zeros_like)
def zeros_like(a: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None) -> Array:
    check_order(order)
    return _like(a, 0, dtype, shape)


@makes(np.ones_like)
def ones_like(a: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None) -> Array:
    check_order(order)
    return _like(a, 1, dtype, shape)


@makes(np.empty_like)
def empty_like(
    prototype: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None
) -> Array:
    check_order(order)
    return _like(prototype, 0, dtype, shape)


@makes(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None
) -> Array:
    check_order(order)
    return _like(a, fill_value, dtype, shape)


@makes(np.eye)
def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Array:
    (n,), (m,) = sizes(N), sizes(N if M is None else M)
    rows, columns = torch.arange(n)[:, None], torch.arange(m)[None, :]
    return Array((columns - rows == k).to(torch_dtype(dtype_of(dtype))))


@makes(np.identity)
def identity(n: Any, dtype: Any = None) -> Array:
    return eye(n, dtype=dtype_of(dtype))


@makes(np.tri)
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Array:
    (n,), (m,) = sizes(N), sizes(N if M is None else M)
    rows, columns = torch.arange(n)[:, None], torch.arange(m)[None, :]
    return Array((columns - rows <= k).to(torch_dtype(dtype_of(dtype))))


@computes(np.vander)
def vander(x: Any, N: Any = None, increasing: bool = False) -> Array:
    base = lift(x)
    if base.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = int(base.shape[0] if N is None else N)
    dtype = np.promote_types(base.dtype, int)
    powers = [torch.ones_like(base.tensor, dtype=torch_dtype(dtype))]
    for _ in range(1, count):
        powers.append(powers[-1] * base.tensor)
    chosen = powers[:count] if increasing else powers[:count][::-1]
    return Array(torch.stack(chosen, -1) if chosen else base.tensor.new_zeros((base.shape[0], 0)))


@makes(np.ndarray)
def ndarray(
    shape: Any,
    dtype: Any = float,
    buffer: Any = None,
    offset: Any = 0,
    strides: Any = None,
    order: Any = None,
) -> Array:
    if buffer is not None or strides is not None:
        refuse("np.ndarray over a buffer has no compiled form", "np.empty(shape, dtype)")
    order_is_c(order)
    return _full(shape, 0, dtype_of(dtype))


# -- sequences -----------------------------------------------------------------------------------------


@makes(np.arange)
def arange(start: Any, /, stop: Any = None, step: Any = None, dtype: Any = None) -> Array:
    first, last = (0, start) if stop is None else (start, stop)
    by = 1 if step is None else step
    ends = (first, last, by)
    if is_known(ends):
        return _counted(np.arange(*ends, dtype=dtype))
    if any(is_array(end) for end in ends):
        refuse("np.arange to a value of an array has a size that is not known", "end it at a size or an int")
    if not all(kind(end) is int for end in ends):
        refuse("np.arange of floats that are arguments has a size that is not known", "use np.linspace")
    return Array(torch.arange(first, last, by, dtype=torch_dtype(dtype_of(dtype, int))))


def _counted(known: np.ndarray) -> Array:
    """Whole numbers in even steps are computed, anything else is a constant."""
    if known.dtype.kind == "i" and known.size > 1:
        step = int(known[1]) - int(known[0])
        return Array(
            torch.arange(
                int(known[0]), int(known[-1]) + (1 if step > 0 else -1), step, dtype=torch_dtype(known.dtype)
            )
        )
    return constant(known)


@makes(np.linspace)
def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, retstep: Any = False, dtype: Any = None,
    axis: int = 0,
) -> Any:  # fmt: skip
    if is_known((start, stop, num)):
        known = np.linspace(start, stop, num, endpoint, retstep, dtype, axis)
        return (constant(known[0]), known[1]) if retstep else constant(known)
    ends = [lift(end) for end in (start, stop)]
    if retstep or any(end.ndim or end.dtype.kind == "c" for end in ends) or is_array(num):
        refuse("np.linspace of arrays, or with retstep=, has no compiled form", "its ends are numbers")
    given = together(start, stop, 0.0)
    first, last = as_tensor(start, given), as_tensor(stop, given)
    return _linspace(first, last, num, endpoint, given, dtype)


def _linspace(first: Tensor, last: Tensor, num: Any, endpoint: bool, given: np.dtype, dtype: Any) -> Array:
    """As NumPy computes it: the step times the index, and the end itself."""
    count = torch.arange(num, dtype=torch_dtype(given))
    div = num - 1 if endpoint else num
    if div == 0:
        found = count * (last - first) + first
    else:
        step = (last - first) / div
        found = torch.where(step == 0, count / div * (last - first), count * step) + first
        if endpoint:
            found = torch.where(count == div, last, found)
    wanted = dtype_of(dtype, given)
    return Array((torch.floor(found) if wanted.kind in "iu" else found).to(torch_dtype(wanted)))


# -- of what is there ----------------------------------------------------------------------------------


def _array(a: Any, dtype: Any, copy: Any) -> Array:
    if is_known(a) and not is_array(a):
        return constant(np.asarray(a, dtype))
    array = lift(a)
    same = dtype is None or np.dtype(dtype) == array.dtype
    if same and not copy and not array.scalar:
        return array
    tensor = array.tensor.to(torch_dtype(array.dtype if dtype is None else dtype))
    return Array(tensor.clone() if copy or array.scalar else tensor)


@makes(np.array)
def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: bool = False, ndmin: int = 0
) -> Array:
    check_order(order)
    found = _array(object, dtype, True if copy is None else copy)
    return found[(*(None,) * (ndmin - found.ndim), ...)] if found.ndim < ndmin else found


@makes(np.asarray, np.asanyarray)
def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None) -> Array:
    check_order(order)
    return _array(a, dtype, bool(copy))


@makes(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None) -> Array:
    found = _array(a, dtype, False)
    return found.view_of(lambda t: t.contiguous() if t.dim() else t.reshape(1))


@makes(np.copy)
def copy(a: Any, order: Any = "K", subok: Any = False) -> Array:
    check_order(order)
    return _array(a, None, True)
