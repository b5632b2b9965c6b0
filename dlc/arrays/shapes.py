"""NumPy's functions that move elements: views, joins, repetitions, differences along an axis."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..trace import Never
from .names import computes, named
from .value import Array, as_tensor, is_array, is_symbol, lift, refuse, together, torch_dtype


def order_is_c(order: Any) -> None:
    if order not in ("C", "K", None):
        refuse(f"order={order!r} has no compiled form", "leave it out: elements are in the order of C")


def check_order(order: Any) -> None:
    """Of a result whose order of elements follows its operands' otherwise: theirs are in the order of C."""
    if order not in ("C", "K", "A", None):
        refuse(f"order={order!r} has no compiled form", "leave it out: elements are in the order of C", Never)


def axis_of(axis: Any, ndim: int) -> int:
    """A whole number in range; raises NumPy's own error."""
    if is_array(axis):
        refuse("an axis is a value of an array", "give it as an int")
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def sizes(shape: Any) -> list[Any]:
    """A shape as a list; ints and symbols."""
    shape = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    for n in shape:
        if is_array(n):
            refuse("a size is a value of an array", "sizes come from x.shape and from ints")
    return [n if isinstance(n, torch.SymInt) else operator.index(n) for n in shape]


@computes(np.reshape)
def reshape(
    a: Any, /, shape: Any = None, order: Any = "C", *, newshape: Any = None, copy: Any = None
) -> Array:
    order_is_c(order)
    array, to = lift(a), sizes(newshape if shape is None else shape)
    if copy is not None:
        refuse("np.reshape(copy=..) has no compiled form", "write x.reshape(..).copy()")
    return array.view_of(lambda t: t.reshape(to))


@computes(np.ravel)
def ravel(a: Any, order: Any = "C") -> Array:
    order_is_c(order)
    array = lift(a)
    return Array(array.tensor.reshape(1)) if array.scalar else array.view_of(lambda t: t.reshape(-1))


@computes(*named("transpose", "permute_dims"))
def transpose(a: Any, axes: Any = None) -> Array:
    array = lift(a)
    if axes is None:
        order = list(reversed(range(array.ndim)))
    else:
        order = [axis_of(ax, array.ndim) for ax in axes]
        if len(set(order)) != array.ndim:
            raise ValueError("axes don't match array")
    if array.scalar:
        return array
    return array.view_of(lambda t: t.permute(order))


@computes(np.swapaxes)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Array:
    array = lift(a)
    one, other = axis_of(axis1, array.ndim), axis_of(axis2, array.ndim)
    return array.view_of(lambda t: t.transpose(one, other))


@computes(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    array = lift(a)
    return array.view_of(lambda t: torch.movedim(t, source, destination))


@computes(*named("matrix_transpose"))
def matrix_transpose(x: Any, /) -> Array:
    array = lift(x)
    if array.ndim < 2:
        raise ValueError("matrix transpose needs an array of two axes at least")
    return array.view_of(lambda t: t.transpose(-1, -2))


@computes(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Array:
    array = lift(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = array.ndim + len(axes)
    added = sorted(axis_of(ax, ndim) for ax in axes)
    if len(set(added)) != len(added):
        raise ValueError("repeated axis")

    def more(t: Tensor) -> Tensor:
        for ax in added:
            t = t.unsqueeze(ax)
        return t

    return array.view_of(more)


@computes(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Array:
    array = lift(a)
    if array.scalar:
        return array
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    chosen = sorted((axis_of(ax, array.ndim) for ax in axes), reverse=True)
    if axis is not None and any(array.shape[ax] != 1 for ax in chosen):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    gone = [ax for ax in chosen if array.shape[ax] == 1]

    def fewer(t: Tensor) -> Tensor:
        for ax in gone:
            t = t.squeeze(ax)
        return t

    return array.view_of(fewer)


def _at_least(ndim: int, arrays: tuple[Any, ...]) -> Any:
    def one(a: Any) -> Array:
        array = lift(a)
        if ndim == 1 or array.ndim >= ndim:
            return array.view_of(lambda t: t.reshape(1)) if not array.ndim else array
        if ndim == 2:
            return array.view_of(lambda t: t.reshape(1, 1) if not array.ndim else t.unsqueeze(0))
        refuse("np.atleast_3d has no compiled form", "write x[:, :, None]")

    done = tuple(map(one, arrays))
    return done[0] if len(done) == 1 else done


@computes(np.atleast_1d)
def atleast_1d(*arrays: Any) -> Any:
    return _at_least(1, arrays)


@computes(np.atleast_2d)
def atleast_2d(*arrays: Any) -> Any:
    return _at_least(2, arrays)


@computes(np.broadcast_to)
def broadcast_to(array: Any, shape: Any) -> Array:
    to = sizes(shape)
    return lift(array).view_of(lambda t: t.expand(to), lazy=True)


@computes(np.broadcast_arrays)
def broadcast_arrays(*args: Any) -> tuple[Array, ...]:
    arrays = list(map(lift, args))
    to = torch.broadcast_shapes(*(a.tensor.shape for a in arrays))
    return tuple(a.view_of(lambda t: t.expand(to), lazy=True) for a in arrays)


@computes(np.broadcast_shapes)
def broadcast_shapes(*args: Any) -> tuple[Any, ...]:
    return tuple(torch.broadcast_shapes(*(tuple(sizes(shape)) for shape in args)))


@computes(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    return lift(a).view_of(lambda t: torch.diagonal(t, offset, axis1, axis2), lazy=True)


@computes(np.diag)
def diag(v: Any, k: int = 0) -> Array:
    array = lift(v)
    if array.ndim == 1:
        return Array(torch.diag_embed(array.tensor, k))
    if array.ndim == 2:
        return diagonal(array, k)
    raise ValueError("Input must be 1- or 2-d.")


@computes(np.real)
def real(val: Any) -> Array:
    array = lift(val)
    if not array.tensor.is_complex():
        return array
    return array.view_of(torch.real, scalar=array.scalar)


@computes(np.imag)
def imag(val: Any) -> Array:
    array = lift(val)
    if not array.tensor.is_complex():
        return Array(torch.zeros_like(array.tensor), scalar=array.scalar)
    return array.view_of(torch.imag, scalar=array.scalar)


@computes(np.flip)
def flip(m: Any, axis: Any = None) -> Array:
    array = lift(m)
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    chosen = [axis_of(ax, array.ndim) for ax in axes]
    return array.view_of(
        lambda t: torch.flip(t, chosen), lazy=True, put=lambda t, value: t.copy_(torch.flip(value, chosen))
    )


@computes(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Array:
    array = lift(m)
    one, other = (axis_of(ax, array.ndim) for ax in axes)
    if one == other:
        raise ValueError("Axes must be different.")
    k %= 4
    if k % 2 == 0:
        return flip(array, (one, other)) if k else array.view_of(lambda t: t.view(t.shape))
    return swapaxes(flip(array, other), one, other) if k == 1 else flip(swapaxes(array, one, other), other)


@computes(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Array:
    return diag(ravel(v), k)


@computes(np.fliplr)
def fliplr(m: Any) -> Array:
    return flip(m, 1)


@computes(np.flipud)
def flipud(m: Any) -> Array:
    return flip(m, 0)


# -- joins ---------------------------------------------------------------------------------------------


def _alike(arrays: Any) -> list[Array]:
    found = [lift(a) for a in arrays]
    if not found:
        raise ValueError("need at least one array to concatenate")
    dtype = np.result_type(*(a.dtype for a in found))
    return [Array(a.tensor.to(torch_dtype(dtype)), scalar=False) for a in found]


def _axis_items(arrays: Any) -> Any:
    if is_array(arrays):
        return list(arrays)
    return arrays


@computes(*named("concatenate", "concat"))
def concatenate(arrays: Any, /, axis: Any = 0, *, dtype: Any = None) -> Array:
    found = _alike(_axis_items(arrays))
    if axis is None:
        found, axis = [ravel(a) for a in found], 0
    if any(a.ndim != found[0].ndim for a in found) or not found[0].ndim:
        raise ValueError("all the input array dimensions must match exactly, and be one at least")
    joined = torch.cat([a.tensor for a in found], axis_of(axis, found[0].ndim))
    return Array(joined if dtype is None else joined.to(torch_dtype(dtype)))


@computes(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Array:
    return concatenate((arr, values), axis=axis)


def _place(array: Array, obj: Any, what: str, count: Any) -> Any:
    """An int as a place of which there are so many."""
    if is_array(obj) or not isinstance(obj, (int, np.integer, torch.SymInt)):
        refuse(f"np.{what} at several places has no compiled form", "np.concatenate of the parts")
    if not -count <= obj < count:
        raise IndexError(f"index {obj} is out of bounds for axis with size {count}")
    return obj + count if obj < 0 else obj


def _flat(arr: Any, axis: Any) -> tuple[Array, int]:
    array = lift(arr)
    return (ravel(array), 0) if axis is None else (array, axis_of(axis, array.ndim))


@computes(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Array:
    array, ax = _flat(arr, axis)
    k = _place(array, obj, "delete", array.shape[ax])
    before = (slice(None),) * ax
    return concatenate([array[(*before, slice(0, k))], array[(*before, slice(k + 1, None))]], axis=ax)


@computes(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Array:
    array, ax = _flat(arr, axis)
    count = array.shape[ax]
    k = obj if isinstance(obj, int) and obj == count else _place(array, obj, "insert", count)
    new = lift(values)
    new = Array(new.tensor.to(array.tensor.dtype))[(*(None,) * (array.ndim - new.ndim), ...)]
    new = moveaxis(new, 0, ax)
    before = (slice(None),) * ax
    shape = list(array.shape)
    shape[ax] = new.shape[ax]
    parts = [array[(*before, slice(0, k))], broadcast_to(new, shape), array[(*before, slice(k, None))]]
    return concatenate(parts, axis=ax)


@computes(np.stack)
def stack(arrays: Any, axis: int = 0) -> Array:
    found = _alike(_axis_items(arrays))
    return Array(torch.stack([a.tensor for a in found], axis_of(axis, found[0].ndim + 1)))


@computes(*named("vstack", "row_stack"))
def vstack(tup: Any) -> Array:
    return concatenate([_at_least(2, (a,)) for a in _axis_items(tup)], axis=0)


@computes(np.hstack)
def hstack(tup: Any) -> Array:
    parts = [_at_least(1, (a,)) for a in _axis_items(tup)]
    return concatenate(parts, axis=0 if parts[0].ndim == 1 else 1)


@computes(np.column_stack)
def column_stack(tup: Any) -> Array:
    parts = [lift(a) for a in _axis_items(tup)]
    return concatenate([_at_least(1, (a,))[:, None] if a.ndim < 2 else a for a in parts], axis=1)


def _parts(ary: Any, points: Any, axis: Any) -> list[Array]:
    array = lift(ary)
    before = (slice(None),) * axis_of(axis, array.ndim)
    ends = zip([0, *points], [*points, None], strict=True)
    return [array[(*before, slice(start, stop))] for start, stop in ends]


@computes(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    if is_array(indices_or_sections):
        refuse("np.split at places that are values has no known sizes", "give it ints")
    if isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        return _parts(ary, list(indices_or_sections), axis)
    count = operator.index(indices_or_sections)
    if count <= 0:
        raise ValueError("number sections must be larger than 0.")
    each, more = divmod(lift(ary).shape[axis_of(axis, lift(ary).ndim)], count)
    more = int(more)  # a condition of the variant
    return _parts(ary, [k * each + min(k, more) for k in range(1, count)], axis)


@computes(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    if isinstance(indices_or_sections, (int, np.integer)):
        array = lift(ary)
        if array.shape[axis_of(axis, array.ndim)] % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


@computes(np.block)
def block(arrays: Any) -> Array:
    """The innermost lists are joined along the last axis, those around them along the one before."""

    def depth(part: Any) -> int:
        return 1 + max(map(depth, part)) if isinstance(part, list) else 0

    def rank(part: Any) -> int:
        return max(map(rank, part)) if isinstance(part, list) else lift(part).ndim

    ndim = max(depth(arrays), rank(arrays))

    def joined(part: Any, level: int) -> Array:
        if not isinstance(part, list):
            leaf = lift(part)
            return leaf[(*(None,) * (ndim - leaf.ndim), ...)]
        if not part:
            raise ValueError("List depths are mismatched, or a list is empty")
        return concatenate([joined(item, level - 1) for item in part], axis=ndim - level)

    whole = joined(arrays, depth(arrays))
    return Array(whole.tensor.clone())


# -- repetitions ---------------------------------------------------------------------------------------


@computes(np.tile)
def tile(A: Any, reps: Any) -> Array:
    return Array(torch.tile(lift(A).tensor, tuple(sizes(reps))))


@computes(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Array:
    if is_array(repeats) or not isinstance(repeats, (int, np.integer, torch.SymInt)):
        refuse("np.repeat by an array has no compiled form", "repeats is an int")
    array = lift(a)
    tensor = array.tensor.reshape(-1) if axis is None else array.tensor
    ax = 0 if axis is None else axis_of(axis, array.ndim)
    wide = tensor.unsqueeze(ax + 1)
    times = [1] * wide.dim()
    times[ax + 1] = repeats
    return Array(wide.repeat(times).flatten(ax, ax + 1))


@computes(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Array:
    array = lift(a)
    if any(map(is_array, shift if isinstance(shift, (tuple, list)) else (shift,))):
        refuse("np.roll by a value of an array", "the shift is an int")
    if axis is None:
        return Array(torch.roll(array.tensor.reshape(-1), shift, 0).reshape(array.tensor.shape))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    return Array(torch.roll(array.tensor, shifts, [axis_of(ax, array.ndim) for ax in axes]))


@computes(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", *, constant_values: Any = 0) -> Array:
    if mode not in ("constant", "edge") or not (np.isscalar(constant_values) or is_symbol(constant_values)):
        refuse(f"np.pad(mode={mode!r}) has no compiled form", "mode is 'constant' or 'edge'")
    found = lift(array)
    widths = np.broadcast_to(np.asarray(pad_width), (found.ndim, 2)).tolist()
    value = as_tensor(constant_values, found.dtype)
    tensor = found.tensor
    for ax, (before, after) in enumerate(widths):
        ends = []
        for count, at in ((before, 0), (after, -1)):
            shape = list(tensor.shape)
            shape[ax] = count
            edge = tensor.select(ax, at).unsqueeze(ax) if mode == "edge" else value
            ends.append(edge.expand(shape))
        tensor = torch.cat([ends[0], tensor, ends[1]], ax)
    return Array(tensor)


# -- neighbours ----------------------------------------------------------------------------------------


def _slices(array: Array, axis: int) -> tuple[Array, Array]:
    before = (slice(None),) * axis
    return array[(*before, slice(1, None))], array[(*before, slice(None, -1))]


@computes(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1) -> Array:
    array = lift(a)
    if not array.ndim:
        raise ValueError("diff requires input that is at least one dimensional")
    ax = axis_of(axis, array.ndim)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    for _ in range(n):
        after, before = _slices(array, ax)
        array = after != before if array.dtype == bool else after - before
    return array


@computes(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    after, before = _slices(ravel(ary), 0)
    found = after - before
    for end in (to_end, to_begin):
        if end is not None and not np.can_cast(together(end, found), found.dtype, "same_kind"):
            raise TypeError("dtype of `to_begin` and `to_end` must be compatible with input `ary`")
    parts = [to_begin, found, to_end]
    same = [Array(lift(p).tensor.to(found.tensor.dtype).reshape(-1)) for p in parts if p is not None]
    return concatenate(same) if len(same) > 1 else found


@computes(*named("trapezoid", "trapz"))
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    array = lift(y)
    ax = axis_of(axis, array.ndim)
    after, before = _slices(array, ax)
    if x is not None:
        dx = diff(x, axis=ax if lift(x).ndim > 1 else -1)
        if dx.ndim == 1:
            dx = dx[(slice(None), *(None,) * (array.ndim - ax - 1))]
    from .reductions import sum_

    return sum_(dx * (after + before) / 2.0, ax)


@computes(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Array:
    if out is not None or mode != "raise":
        refuse("np.take(out=.., mode=..) has no compiled form", "write x[indices]")
    array = lift(a)
    array, axis = (ravel(array), 0) if axis is None else (array, axis)
    known = isinstance(indices, (int, np.integer)) and not is_array(indices)
    where = indices if known else lift(indices)
    return array[(*(slice(None),) * axis_of(axis, array.ndim), where)]


@computes(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Array:
    array, places = lift(arr), lift(indices)
    if axis is None or places.ndim != array.ndim:
        refuse("np.take_along_axis of other axes has no compiled form", "give axis= and as many axes")
    ax = axis_of(axis, array.ndim)
    where = places.tensor.to(torch.int64)
    where = torch.where(where < 0, where + array.shape[ax], where)
    shape = list(torch.broadcast_shapes(*(_without(t.shape, ax) for t in (array.tensor, where))))
    sized = [[*shape[:ax], t.shape[ax], *shape[ax:]] for t in (array.tensor, where)]
    return Array(torch.gather(array.tensor.expand(sized[0]), ax, where.expand(sized[1])))


def _without(shape: Any, axis: int) -> list[Any]:
    return [n for k, n in enumerate(shape) if k != axis]


@computes(np.meshgrid)
def meshgrid(*xi: Any, copy: Any = True, sparse: Any = False, indexing: str = "xy") -> tuple[Array, ...]:
    if sparse or not copy:
        refuse("np.meshgrid(sparse=.., copy=..) has no compiled form", "write x[None, :] and y[:, None]")
    tensors = [lift(x).tensor.reshape(-1) for x in xi]
    return tuple(Array(t.clone()) for t in torch.meshgrid(*tensors, indexing=indexing))


@computes(np.tril)
def tril(m: Any, k: int = 0) -> Array:
    return Array(torch.tril(lift(m).tensor, k))


@computes(np.triu)
def triu(m: Any, k: int = 0) -> Array:
    return Array(torch.triu(lift(m).tensor, k))


def same_dtype(*values: Any) -> list[Tensor]:
    """Tensors of the dtype that NumPy gives them together."""
    dtype = together(*values)
    return [as_tensor(value, dtype) for value in values]
