"""x[..] and x[..] = y as NumPy has them, in what torch's indexing does the same way."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .value import Array, Chosen, Cut, Root, as_tensor, is_array, is_symbol, lift, refuse


def _whole_number(item: Any) -> bool:
    if is_array(item) or isinstance(item, bool):
        return False
    return isinstance(item, (int, np.integer, torch.SymInt))


def _item(item: Any) -> Any:
    """One part of an index: an int, a slice, None, ..., or an Array."""
    if item is None or item is Ellipsis or isinstance(item, torch.SymInt):
        return item
    if _is_cut(item):
        return item
    if type(item) is slice:
        return slice(*(int(part) if isinstance(part, np.integer) else part for part in _ends(item)))
    if _whole_number(item):
        return int(item)
    if isinstance(item, (bool, np.bool_)):
        refuse("it is indexed by a bool", "use np.where, or an array of bools")
    if isinstance(item, (list, tuple)) and not item:
        item = np.zeros(0, np.int64)
    found = lift(item)
    if found.dtype.kind not in "biu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return found


def _is_cut(item: Any) -> bool:
    """Is it a slice of rising places whose ends are values?  See Cut."""
    if type(item) is not slice or item.step is not None:
        return False
    ends = [end for end in (item.start, item.stop) if end is not None]
    values = [end for end in ends if is_array(end)]
    numbers = all(is_array(end) or _whole_number(end) for end in ends)
    return (
        len(values) > 0
        and numbers
        and all(v.scalar or v.weak for v in values)
        and all(v.dtype.kind in "iu" for v in values)
    )


def _cut(array: Array, parts: list[Any]) -> Chosen:
    """array[.., start:stop, ..], where it is the first axis of what the other parts leave."""
    at = next(k for k, part in enumerate(parts) if _is_cut(part))
    part, others = parts[at], [*parts[:at], *parts[at + 1 :]]
    one = [(is_array(p) and _is_value(p) and (p.scalar or p.weak)) or _whole_number(p) for p in others]
    if (
        not all(one[:at])
        or any(map(_is_cut, others))
        or any(is_array(p) and not o for p, o in zip(others, one, strict=True))
    ):
        _ends(part)
    of = get(array, (*parts[:at], slice(None), *parts[at + 1 :]))
    whole = of.tensor
    size = whole.shape[0]
    place = torch.arange(size)
    start, stop = (None if end is None else _from_front(end, size) for end in (part.start, part.stop))
    if start is None or stop is None:
        mask = place < stop if start is None else place >= start
    else:
        mask = (place >= start) & (place < stop)
    cut = Cut(part.start, part.stop, size, of, of.root.writes)
    return Chosen(whole.clone(), mask, mask, Root(), 0, cut)


def _from_front(end: Any, size: Any) -> Tensor:
    value = end.tensor.to(torch.int64) if is_array(end) else torch.full((), end, dtype=torch.int64)
    return torch.where(value < 0, value + size, value)


def write_cut(to: Chosen, value: Any) -> None:
    """Writes a number, or what has the same places of its axis, to the places of a cut."""
    cut = to.cut
    assert cut is not None
    of = cut.of
    found = value.chosen if is_array(value) and not value.scalar else None
    if found is not None and cut.same_places(found.cut):
        new = found.whole.to(to.whole.dtype)
    elif np.isscalar(value) or is_symbol(value) or (is_array(value) and found is None and not value.ndim):
        new = as_tensor(value, of.dtype)
    else:
        to.elements()
    check_write(of)
    whole = of.tensor
    mask = to.mask.reshape(-1, *(1,) * (whole.dim() - 1))
    of.store(torch.where(mask, new.expand(whole.shape), whole))


def _ends(item: slice) -> tuple[Any, Any, Any]:
    ends = (item.start, item.stop, item.step)
    if any(is_array(part) for part in ends):
        refuse(
            "a slice ends at a value of an array, so its size is not known",
            "use np.where over the whole array",
        )
    return ends


def _parts(index: Any, ndim: int) -> list[Any]:
    """The index with an item for each axis, but that None has none and an array of bools several."""
    parts = [_item(item) for item in (index if type(index) is tuple else (index,))]
    taken = sum(_axes(part) for part in parts)
    if taken > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {taken} were indexed")
    if Ellipsis not in [part for part in parts if not is_array(part)]:
        parts.append(Ellipsis)
    where = next(k for k, part in enumerate(parts) if part is Ellipsis)
    return parts[:where] + [slice(None)] * (ndim - taken) + parts[where + 1 :]


def _axes(part: Any) -> int:
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if is_array(part) and part.dtype == bool else 1


def _upwards(part: slice) -> slice:
    """The elements of a slice with a negative step, and those between them, in rising order."""

    def after(end: Any) -> Any:
        return None if end is None or (isinstance(end, int) and end == -1) else end + 1

    if part.stop is not None and isinstance(part.stop, int) and part.stop == -1:
        return slice(0, 0)
    return slice(after(part.stop), None if part.start is None else after(part.start))


def _backwards(array: Array, axis: int, part: slice) -> Array:
    """array[.., part, ..] for a step below zero, read anew each time: torch has no such view."""
    before = (slice(None),) * axis

    def read(t: Tensor) -> Tensor:
        rising = t[(*before, _upwards(part))]
        return torch.flip(rising, [axis])[(*before, slice(None, None, -part.step))]

    def put(t: Tensor, value: Tensor) -> None:
        rising = t[(*before, _upwards(part))]
        first = (rising.shape[axis] - 1) % -part.step if part.step != -1 else 0
        rising[(*before, slice(first, None, -part.step))].copy_(torch.flip(value, [axis]))

    return array.view_of(read, lazy=True, put=put)


def _by_scalars(array: Array, axis: int, places: list[Any]) -> Array:
    """array[.., j, k, ..] where j, k are values: NumPy's view, read anew each time."""
    before = (slice(None),) * axis

    def at() -> tuple[Any, ...]:
        whole = [p.tensor.to(torch.int64) if is_array(p) else torch.full((), p) for p in places]
        return (*before, *(p.reshape(1) for p in whole))

    def read(t: Tensor) -> Tensor:
        return t[at()].select(axis, 0)

    def put(t: Tensor, value: Tensor) -> None:
        t[at()] = value.unsqueeze(axis)

    return array.view_of(read, lazy=True, put=put)


def _is_backwards(part: Any) -> bool:
    return type(part) is slice and isinstance(part.step, int) and part.step < 0


def _without_backwards(array: Array, parts: list[Any]) -> tuple[Array, list[Any]]:
    """The view that the slices with steps below zero make, and the index that is left."""
    axis, rest = 0, []
    for part in parts:
        if _is_backwards(part):
            array = _backwards(array, axis, part)
            part = slice(None)
        rest.append(part)
        axis += _axes(part)
    return array, rest


def _is_value(part: Any) -> bool:
    """Is it an index of one element, which is known when the function runs?"""
    return is_array(part) and part.ndim == 0 and part.dtype != bool


def _rewritten(array: Array, parts: list[Any]) -> tuple[Array, list[Any]]:
    """Takes the items that are lazy views out of the index."""
    array, parts = _without_backwards(array, parts)
    if not any(map(_is_value, parts)):
        return array, parts
    if any(is_array(part) and not _is_value(part) for part in parts):
        refuse("an index of an array of indices and a scalar of NumPy's", "index in two steps")
    axis, at, rest = 0, 0, []
    while at < len(parts):
        run = at
        while run < len(parts) and (_is_value(parts[run]) or _whole_number(parts[run])):
            run += 1
        if any(map(_is_value, parts[at:run])):
            array = _by_scalars(array, axis, parts[at:run])
        else:
            run = at + 1
            rest.append(parts[at])
            axis += 0 if _whole_number(parts[at]) else _axes(parts[at])
            if _whole_number(parts[at]):
                array = array.view_of(lambda t, axis=axis, k=parts[at]: t.select(axis, k))
                rest.pop()
        at = run
    return array, rest


def _check_order(parts: list[Any]) -> None:
    """NumPy puts the axes of index arrays first where a slice is between them and an int."""
    kinds = ["i" if _whole_number(p) or is_array(p) else "s" for p in parts]
    used = [k for k, what in enumerate(kinds) if what == "i"]
    ints = any(_whole_number(p) for p in parts)
    if ints and used and used[-1] - used[0] + 1 != len(used):
        refuse("an int and an array of indices with a slice between them", "index in two steps")


def _for_torch(part: Any) -> Any:
    if not is_array(part):
        return part
    return part.tensor if part.dtype in (np.dtype(bool), np.dtype(np.int64)) else part.tensor.to(torch.int64)


def get(array: Array, index: Any) -> Array:
    """array[index]"""
    parts = _parts(index, array.ndim)
    if any(map(_is_cut, parts)):
        return Array(None, chosen=_cut(array, parts))
    ellipsis = index is Ellipsis or (
        type(index) is tuple and any(p is Ellipsis for p in index if not is_array(p))
    )
    copied = any(_is_value(part) and not part.scalar for part in parts)
    array, parts = _rewritten(array, parts)
    if copied:  # of an array without axes NumPy makes no view
        array = Array(array.tensor)
    chosen = tuple(map(_for_torch, parts))
    if any(is_array(part) for part in parts):
        _check_order(parts)
        masked = _masked(array, parts)
        return Array(array.tensor[chosen]) if masked is None else Array(None, chosen=masked)
    scalar = not ellipsis and all(_whole_number(part) for part in parts)
    if not chosen:
        return array.view_of(lambda t: t.view(t.shape), scalar=scalar)
    return array.view_of(lambda t: _view(t, chosen), scalar=scalar)


def _view(tensor: Tensor, parts: tuple[Any, ...]) -> Tensor:
    """tensor[parts], a view. Each view of a tensor is made once: a fake tensor takes about a millisecond.

    Slices of several axes are made axis by axis, as x[1:, 1:] and x[1:, :-1] begin alike.
    """
    keys = [_key(part) for part in parts]
    if None in keys:
        return tensor[parts]
    if not all(isinstance(part, slice) for part in parts):
        return _made_once(tensor, tuple(keys), lambda t: t[parts])
    whole = True
    for ax, part in enumerate(parts):
        if part != slice(None):
            key = (*[_key(slice(None))] * ax, keys[ax])  # of the index that it is
            tensor, whole = _made_once(tensor, key, functools.partial(_slice, ax, part)), False
    return tensor.view(tensor.shape) if whole else tensor


def _key(part: Any) -> Any:
    """A part of an index as something to look up; None where it is no number and no slice of numbers."""
    if type(part) is slice:
        ends = (part.start, part.stop, part.step)
        return ends if all(end is None or type(end) is int for end in ends) else None
    return part if type(part) is int else "new" if part is None else None


def _slice(ax: int, part: slice, tensor: Tensor) -> Tensor:
    if part.step == 0:
        raise ValueError("slice step cannot be zero")
    return torch.ops.aten.slice.Tensor(tensor, ax, part.start, part.stop, part.step or 1)


def _made_once(tensor: Tensor, key: tuple[Any, ...], make: Callable[[Tensor], Tensor]) -> Tensor:
    made = vars(tensor).setdefault("_dlc_views", {})
    if key not in made:
        made[key] = make(tensor)
    return made[key]


def _masked(array: Array, parts: list[Any]) -> Chosen | None:
    """array[mask] or array[mask, :]; None where it is another index."""
    if not _last(parts) or parts[0].dtype != bool or not parts[0].ndim:
        return None
    places, root, whole = parts[0].tensor, parts[0].root, array.tensor
    if list(whole.shape[: places.dim()]) != list(places.shape):
        return None  # torch says what is wrong
    return Chosen(whole.clone(), places.clone(), places, root, root.writes)


def check_write(array: Array) -> None:
    if array.scalar:
        raise TypeError(f"'numpy.{array.dtype.name}' object does not support item assignment")
    if array.read_only:
        raise ValueError("assignment destination is read-only")
    if array.root.fixed:
        refuse(array.root.fixed, "write to a copy, x.copy()")
    array.root.written()


def write(array: Array, value: Tensor) -> None:
    """array[...] = value of the same dtype"""
    check_write(array)
    if value.dim() > array.ndim:
        raise ValueError(f"could not broadcast input array of {value.dim()} axes into {array.ndim}")
    array.store(value.expand(array.tensor.shape) if array.lazy else value)


def into(out: Any, result: Array, casting: str | None = None, broadcast: bool = False) -> Array:
    """The result written to out=, as NumPy's functions do it.

    Raises TypeError where its dtype cannot be cast to that of `out` by the rule `casting`, and ValueError
    where `out` has other sizes (broadcast: other sizes than those that it is broadcast to). Without a rule, a
    dtype of another kind is refused: NumPy's function raises, or computes in that dtype.
    """
    if isinstance(out, tuple) and len(out) == 1:
        (out,) = out
    if not is_array(out):
        refuse("it writes to an array that NumPy made", "make it in the function, by np.empty_like(x)")
    if casting is None and not np.can_cast(result.dtype, out.dtype, "same_kind"):
        refuse(
            f"its result of {result.dtype} is cast to out= of {out.dtype}",
            "give out= a dtype of the same kind, and convert it by astype()",
        )
    if casting is not None and not np.can_cast(result.dtype, out.dtype, casting):
        raise TypeError(
            f"Cannot cast the result from {result.dtype!r} to {out.dtype!r} of out= "
            f"according to the rule {casting!r}"
        )
    here, there = result.shape, out.shape
    if broadcast:
        fits = len(here) <= len(there)  # of the sizes copy_ says so
    else:
        fits = len(here) == len(there) and all(m == n for m, n in zip(here, there, strict=True))
    if not fits:
        raise ValueError(f"out= is of shape {tuple(there)}, and the result of shape {tuple(here)}")
    write(out, result.tensor.to(out.tensor.dtype))
    return out


def put(array: Array, index: Any, value: Any) -> None:
    """array[index] = value"""
    if any(map(_is_cut, index if type(index) is tuple else (index,))):
        write_cut(_cut(array, _parts(index, array.ndim)), value)
        return
    check_write(array)
    if array.lazy:
        whole = Array(array.tensor.clone())
        put(whole, index, value)
        array.store(whole.tensor)
        return
    if not is_array(value) and not is_symbol(value) and not np.isscalar(value):
        value = lift(value)
    parts = _parts(index, array.ndim)
    chosen = [part for part in parts if is_array(part)]
    if any(_is_backwards(part) for part in parts):
        view, rest = _without_backwards(array, parts)
        put(view, tuple(rest), value)
    elif not chosen:
        _write_part(array.tensor, parts, as_tensor(value, array.dtype))
    elif all(map(_is_value, chosen)):
        view, rest = _rewritten(array, parts)
        put(view, tuple(rest), value)
    elif len(chosen) == 1 and chosen[0].dtype == bool:
        _put_masked(array, parts, chosen[0], value)
    elif is_array(value) and value.ndim:
        from .called import put_items  # a place that is named twice has the last value

        put_items(array, index, value)
    else:
        _check_order(parts)
        array.tensor[tuple(map(_for_torch, parts))] = as_tensor(value, array.dtype)


def _put_masked(array: Array, parts: list[Any], mask: Array, value: Any) -> None:
    """Writes where the mask is true: a select, if each place of the array has a value."""
    rest = array.ndim - mask.ndim
    whole = _whole_of(array, mask, value) if _last(parts) else None
    if whole is None:
        value = as_tensor(value, array.dtype)
        whole = value if _last(parts) and value.dim() <= rest else None
    if whole is not None:
        behind = array.tensor.shape[array.ndim - rest :] if whole.dim() <= rest else array.tensor.shape
        _write_masked(array.tensor, mask.tensor, whole.expand(behind))
    else:
        _check_order(parts)
        array.tensor[tuple(map(_for_torch, parts))] = value


def _whole_of(array: Array, mask: Array, value: Any) -> Tensor | None:
    """What v[mask] is chosen from, in the array's dtype; None for other values."""
    found = value.chosen if is_array(value) else None
    if found is None or not found.same_places(mask.tensor, mask.root) or found.whole.dim() != array.ndim:
        return None
    return found.whole.to(array.tensor.dtype)


def _last(parts: list[Any]) -> bool:
    """Is an array of bools followed by whole axes only?"""
    return is_array(parts[0]) and all(type(p) is slice and p == slice(None) for p in parts[1:])


def _write_masked(tensor: Tensor, mask: Tensor, value: Tensor) -> None:
    for _ in range(tensor.dim() - mask.dim()):
        mask = mask.unsqueeze(-1)
    tensor.copy_(torch.where(mask, value, tensor))


def _write_part(tensor: Tensor, parts: list[Any], value: Tensor) -> None:
    target = tensor[tuple(parts)] if parts else tensor
    while value.dim() > target.dim() and value.shape[0] == 1:
        value = value[0]
    if value.dim() > target.dim():
        raise ValueError(f"could not broadcast input array of {value.dim()} axes into {target.dim()}")
    target.copy_(value)
